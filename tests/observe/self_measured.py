"""A rank that trains and measures itself: how many steps, and for what share of the time it waited for communication.

Arguments: the faces it trains through one after the other, how many steps each; the first two of these are not
measured, for frameworks prepare themselves then. For each it prints the face, the steps, the least and the most that
this share can be; and the steps and the share of exposed communication by its figures. Computing is sleeping, so that
it takes as long on a busy machine.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paceline.observe.rates import rates
from paceline.process.current import runtime

BLOCKS = 4
ELEMENTS = 1 << 18
"""Of each block's gradient, float32: 1 MiB."""
UNMEASURED = 2
SECONDS = 0.01
"""What a block computes, forward and again backward."""

Wrap = Callable[[Any], tuple[Any, Any]]
"""Makes of a module the model that is trained, and its optimizer."""


class Clock:
    """From its making, or its last `start`, on: the time inside `computing`, on a core outside of it, and in all."""

    def __init__(self) -> None:
        self.start()

    def start(self) -> None:
        self._figures = figures()
        self._start, self._starved = time.monotonic(), starved()
        self._computed, self._ran = 0.0, -time.thread_time()

    @contextmanager
    def computing(self) -> Iterator[None]:
        start, ran = time.monotonic(), time.thread_time()
        try:
            yield
        finally:
            self._computed += time.monotonic() - start
            self._ran -= time.thread_time() - ran

    def tell(self, face: str, steps: int) -> None:
        """Print what has been measured until now: at most it waited whenever it did not compute, at least when it had a
        core and did not use it."""
        took = time.monotonic() - self._start
        seen = rates(figures(), self._figures)
        most = 1 - self._computed / took
        least = most - (self._ran + time.thread_time() + starved() - self._starved) / took
        print(face, steps, least, most, seen.steps, seen.exposed, flush=True)


def figures() -> Any:
    """This rank's; none before its first group."""
    monitor = runtime().monitor
    return None if monitor is None else monitor.figures()


def starved() -> float:
    """Seconds for which this thread has waited for a core."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9


def train(wrap: Wrap, steps: int) -> Clock:
    """The clock has measured all but the first steps."""
    import torch

    clock = Clock()

    class Compute(torch.autograd.Function):
        @staticmethod
        def forward(context: object, value: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
            with clock.computing():
                time.sleep(SECONDS)
                return value.clone()

        @staticmethod
        def backward(context: object, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            with clock.computing():
                time.sleep(SECONDS)
                return gradient, torch.ones(ELEMENTS)

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(ELEMENTS))

        def forward(self, value: torch.Tensor) -> Any:
            return Compute.apply(value, self.weight)

    model, optimizer = wrap(torch.nn.Sequential(*(Block() for _ in range(BLOCKS))))
    for step in range(steps):
        if step == UNMEASURED:
            clock.start()
        optimizer.zero_grad()
        model(torch.ones(1, requires_grad=True)).sum().backward()
        optimizer.step()
    return clock


def alone(module: Any) -> tuple[Any, Any]:
    import torch

    return module, torch.optim.SGD(module.parameters(), 0.1)


def ddp(module: Any) -> tuple[Any, Any]:
    from torch.nn.parallel import DistributedDataParallel

    return alone(DistributedDataParallel(module, bucket_cap_mb=1))


def buckets(module: Any) -> tuple[Any, Any]:
    import paceline.torch

    paceline.torch.GradientBuckets(module, bucket_bytes=1 << 20)
    return alone(module)


def fsdp2(module: Any) -> tuple[Any, Any]:
    from torch.distributed.fsdp import fully_shard

    for block in module:
        fully_shard(block)
    fully_shard(module)
    return alone(module)


def horovod(module: Any) -> tuple[Any, Any]:
    import paceline.horovod.torch as hvd

    hvd.broadcast_parameters(module.state_dict(), 0)
    model, optimizer = alone(module)
    return model, hvd.DistributedOptimizer(optimizer, module.named_parameters())


def train_raw(steps: int) -> None:
    """Between its steps there are calls of other kinds, as training has them: a metric, a barrier before a file."""
    import numpy as np

    import paceline

    group = paceline.init()
    gradients = [np.ones(ELEMENTS + number, np.float32) for number in range(BLOCKS)]
    clock = Clock()
    for step in range(steps):
        if step == UNMEASURED:
            clock.start()
        for gradient in gradients:
            with clock.computing():
                time.sleep(2 * SECONDS)
            group.all_reduce(gradient, "avg")
        if step % 3 == 0:
            group.all_reduce(np.ones(1))
        if step % 5 == 0:
            group.barrier()
    clock.tell("raw", steps - UNMEASURED)
    group.close()


def train_torch(faces: list[str], steps: int) -> None:
    import torch.distributed as dist

    wraps: dict[str, Wrap] = {"ddp": ddp, "buckets": buckets, "fsdp2": fsdp2}
    dist.init_process_group("paceline")
    for face in faces:
        train(wraps[face], steps).tell(face, steps - UNMEASURED)
        gc.collect()  # the next face's first step is no part of this one's last
    dist.destroy_process_group()


def train_horovod(steps: int) -> None:
    import paceline.horovod.torch as hvd

    hvd.init()
    train(horovod, steps).tell("horovod", steps - UNMEASURED)
    hvd.shutdown()


def main() -> None:
    faces, steps = sys.argv[1].split(","), int(sys.argv[2])
    if faces == ["raw"]:
        train_raw(steps)
        return
    import torch.distributed.fsdp  # what takes seconds to import is imported before anything is timed

    torch.ones(1, requires_grad=True).sum().backward()  # no step of an optimizer, which may count as the job's
    if faces == ["horovod"]:
        train_horovod(steps)
    else:
        train_torch(faces, steps)


if __name__ == "__main__":
    main()
