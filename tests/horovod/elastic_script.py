"""An elastic script without a framework, which starts in no time. What happens to it is told by files in a folder.

elastic_script.py FOLDER STEPS: each step adds the number of ranks; a worker writes "rank size step sum" lines to
FOLDER/PID. At step 3 rank i of the first round does to itself what FOLDER/kill-i or FOLDER/stop-i say, with one of
the step's two requests under way. Step 5 lasts until FOLDER/hold is gone, or the hosts change.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from paceline.coordinate import Request, Span
from paceline.horovod import job
from paceline.horovod.channel import Channel
from paceline.horovod.elastic import ObjectState, run_fn
from paceline.horovod.handles import Pending

FOLDER, STEPS = Path(sys.argv[1]), int(sys.argv[2])


def carry_out(name: str, start: Callable[[Channel], Request], meanwhile: Callable[[], None] = lambda: None) -> None:
    channel = job.current().channel(0)
    requests = channel.start([name], lambda _: [start(channel)])
    meanwhile()
    Pending(channel, [name], requests, lambda: None).result()


def broadcast(value: Any) -> Any:
    text = json.dumps(value).encode()
    memory = np.zeros(200, np.uint8)
    memory[: len(text)] = np.frombuffer(text, np.uint8)
    carry_out("object", lambda channel: channel.coordinator.broadcast("object", Span.of(memory), 0))
    return json.loads(memory.tobytes().rstrip(b"\0"))


def mishap(step: int) -> None:
    for name, number in (("kill", signal.SIGKILL), ("stop", signal.SIGSTOP)):
        sign = FOLDER / f"{name}-{job.current().rank}"
        if step == 3 and sign.exists():
            sign.rename(FOLDER / f"done-{name}")
            os.kill(os.getpid(), number)


def train(state: Any) -> None:
    while state.step < STEPS:
        while state.step == 5 and broadcast((FOLDER / "hold").exists()):
            (FOLDER / "holding").touch()
            time.sleep(0.02)
            state.check_host_updates()
        one, other = np.ones(4), np.ones(3)
        carry_out("one", lambda c: c.coordinator.all_reduce("one", Span.of(one)), lambda: mishap(state.step))  # noqa: B023
        carry_out("other", lambda c: c.coordinator.all_reduce("other", Span.of(other)))  # noqa: B023
        assert one[0] == other[0]
        state.sum += int(one[0])
        state.step += 1
        here = job.current()
        with (FOLDER / str(os.getpid())).open("a") as file:
            print(here.rank, here.size, state.step, state.sum, file=file)
        if state.step % 2 == 0:
            state.commit()


def reset() -> None:
    job.stop()
    job.start(None)


class Plain(ObjectState):
    def reset(self) -> None:
        """Nothing depends on the number of ranks."""


job.start(None)
run_fn(train, reset)(Plain(broadcast, lambda: job.current().rank, step=0, sum=0))
