"""A rank that ends without leaving its job. Arguments: face ("raw", "horovod"), steps, timeline, and how it ends:

"end": the script is over; "raise": rank 0 raises while a request of its own is under way; "talk": all ranks communicate
in a handler of their own; "child": a forked child is the rank; "alone": rank 0 ends, rank 1 goes on until it cannot.
One more handler leaves what is left.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import threading

import numpy as np

FACE, STEPS, TIMELINE, HOW = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
RANK = int(os.environ["RANK"])


def start_no_thread(_: object) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


def as_in_later_pythons() -> None:
    """From Python 3.12 on no thread can be started once the interpreter ends."""
    threading.Thread.start = start_no_thread


class Raw:
    def __init__(self) -> None:
        import paceline
        from paceline import timeline
        from paceline.coordinate import coordinator

        self.group = paceline.init()
        self.coordinator = coordinator(self.group)
        timeline.start(TIMELINE)
        self.array = np.ones(500, np.float32)

    def submit(self, name: str) -> object:
        from paceline.coordinate import Span

        return self.coordinator.all_reduce(name, Span.of(self.array), "avg", shape=self.array.shape)

    def reduce(self, name: str) -> None:
        self.submit(name).wait()

    @staticmethod
    def leave() -> None:
        from paceline import timeline

        timeline.stop()


class Horovod:
    def __init__(self) -> None:
        import paceline.horovod.torch as hvd

        hvd.init()
        hvd.start_timeline(TIMELINE)

    def submit(self, name: str) -> object:
        import torch

        import paceline.horovod.torch as hvd

        return hvd.allreduce_async(torch.ones(500), name=name)

    def reduce(self, name: str) -> None:
        import paceline.horovod.torch as hvd

        hvd.synchronize(self.submit(name))

    @staticmethod
    def leave() -> None:
        import paceline.horovod.torch as hvd

        hvd.shutdown()


def main(kind: type[Raw] | type[Horovod]) -> None:
    atexit.register(kind.leave)  # runs last
    job = kind()
    if HOW == "talk":
        atexit.register(job.reduce, "at exit")
    atexit.register(as_in_later_pythons)  # runs first
    for step in range(STEPS):
        job.reduce(f"tensor {step}")
    if HOW == "raise" and RANK == 0:
        job.submit("nobody else's")
        raise KeyError("of the script")
    if HOW == "alone" and RANK == 1:
        try:
            job.reduce("after rank 0 left")
        except RuntimeError as error:
            print(error)


if __name__ == "__main__":
    kind = Raw if FACE == "raw" else Horovod
    if HOW == "child":
        child = multiprocessing.get_context("fork").Process(target=main, args=(kind,))
        child.start()
        child.join()
        sys.exit(child.exitcode)
    main(kind)
