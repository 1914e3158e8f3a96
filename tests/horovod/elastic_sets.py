"""An elastic script that registers a process set in `init`: `elastic_sets.py FOLDER`.

Rank i of the first round kills itself in the midst of that, where FOLDER/kill-i says so.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paceline.coordinate import Span
from paceline.horovod import job
from paceline.horovod.basics import init, shutdown, size
from paceline.horovod.process_sets import ProcessSet

FOLDER = Path(sys.argv[1])


class Mortal(job.Job):
    def add(self, ranks: Sequence[int]) -> int | None:
        sign = FOLDER / f"kill-{self.rank}"
        if sign.exists():
            sign.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().add(ranks)


job.Job = Mortal  # type: ignore[misc]

first = ProcessSet([0])
init(process_sets=[first])
worker = job.worker()
assert worker is not None and worker.round is not None
assert first.process_set_id is not None
ones = np.ones(3, np.float32)
for process_set in (first.process_set_id, 0):
    if process_set == 0 or first.included():
        job.current().channel(process_set).coordinator.all_reduce("ones", Span.of(ones)).wait()
print(f"round {worker.round.number}: {size()} ranks, {first.size()} in the set, sum {ones[0]:g}", flush=True)
shutdown()
