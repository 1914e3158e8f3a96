"""Ranks that read batches together, of which one part fails; each prints what it met, as JSON.

Arguments: what fails, and the number of input workers.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from typing import Any

import torch
import torch.distributed as dist

import paceline.torch  # noqa: F401
from paceline.torch.data import Loader

BATCHES, BATCH = 12, 6
TIMEOUT = 3.0
"""Seconds that a rank waits for a batch where the reader is stopped."""


class Numbers:
    """Sample i is i; `broken` raises an error of `kind`, and `endless` never comes."""

    def __init__(self, kind: type[BaseException], broken: int = -1, endless: int = -1) -> None:
        self.kind, self.broken, self.endless = kind, broken, endless

    def __len__(self) -> int:
        return BATCHES * BATCH

    def __getitem__(self, index: int) -> torch.Tensor:
        if index == self.broken:
            raise self.kind(f"broken sample {index}")
        while index == self.endless:
            time.sleep(1)
        return torch.tensor([index])


def end(signal_number: int) -> None:
    os.kill(os.getpid(), signal_number)


def go(what: str, rank: int, workers: int) -> dict[str, Any]:
    kind = {"exit": SystemExit, "interrupted": KeyboardInterrupt}.get(what, KeyError)
    dataset = Numbers(
        kind,
        40 if what in ("raise", "exit", "interrupted") else -1,
        40 if what in ("interrupt", "kill-worker", "stop") else -1,
    )
    timeout = TIMEOUT if what == "stop" else 60
    loader = Loader(dataset, batch_size=BATCH, num_workers=workers, timeout=timeout)
    seen: list[int] = []
    met: BaseException | None = None
    begun = time.monotonic()
    for epoch in range(2 if what == "break" else 1):
        seen.clear()
        try:
            for number, batch in enumerate(loader):
                seen += batch.flatten().tolist()
                if what == "break" and epoch == 0 and number == 2:
                    break
                if number != 3:
                    continue
                if (what, rank) in (("kill-reader", 0), ("kill-rank", 2)):
                    end(signal.SIGKILL)
                if what == "leave" and rank == 1:
                    break
                if (what, rank) == ("kill-worker", 0):
                    for child in multiprocessing.active_children():
                        child.kill()
                if (what, rank) == ("stop", 0):
                    print("{}", flush=True)
                    end(signal.SIGSTOP)
                if what == "interrupt":
                    print("waits", file=sys.stderr, flush=True)
        except (Exception, KeyboardInterrupt) as error:
            met = error
    return {
        "rank": rank,
        "seen": seen,
        "kind": type(met).__name__,
        "message": str(met),
        "blamed": [getattr(met, field, None) for field in ("rank", "host", "pid")],
        "pid": os.getpid(),
        "seconds": time.monotonic() - begun,
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("paceline")
    told = go(sys.argv[1], dist.get_rank(), int(sys.argv[2]))
    print(json.dumps(told), flush=True)
    os.environ["DONE"] = "1"
    if told["kind"] == "NoneType" and sys.argv[1] != "kill-rank":
        dist.destroy_process_group()
