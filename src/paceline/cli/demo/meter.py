"""Measures what communication costs a training step, seen from torch, in the same way for every backend.

DDP passes each bucket of gradients to a communication hook. The hook does what DDP does without one (divide,
all-reduce) and records when the all-reduce was issued and when it was complete.
"""

import time
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future


def no_communication(state: object, bucket: dist.GradBucket) -> Future[Tensor]:
    """A communication hook that does nothing, so that each rank keeps its own gradients."""
    kept: Future[Tensor] = Future()
    kept.set_result(bucket.buffer())
    return kept


@dataclass
class StepTimes:
    """Times in ns of the machine's monotonic clock, which all its processes share, with one entry per bucket."""

    issued: list[int] = field(default_factory=list)
    completed: list[int] = field(default_factory=list)
    backward_end: int = 0


class Meter:
    """Times the all-reduces of one DDP model. Register `hook` with `register_comm_hook(None, meter.hook)`."""

    def __init__(self, group: dist.ProcessGroup) -> None:
        self._group = group
        self._ranks = group.size()
        self._step = StepTimes()
        self._steps: list[StepTimes] = []

    def hook(self, state: object, bucket: dist.GradBucket) -> Future[Tensor]:
        """Average the bucket over the ranks, and record when that was issued and complete."""
        gradients = bucket.buffer().div_(self._ranks)
        step, index = self._step, len(self._step.issued)
        step.completed.append(0)
        step.issued.append(time.monotonic_ns())
        work = dist.all_reduce(gradients, group=self._group, async_op=True)
        assert work is not None

        def complete(future: Future[list[Tensor]]) -> Tensor:
            step.completed[index] = time.monotonic_ns()
            return future.value()[0]

        averaged: Future[Tensor] = work.get_future().then(complete)
        return averaged

    def backward_finished(self) -> None:
        """Record the end of `backward()`, by which DDP has waited for all buckets; call it right afterwards."""
        self._step.backward_end = time.monotonic_ns()
        self._steps.append(self._step)
        self._step = StepTimes()

    def take(self) -> Tensor:
        """Return the steps since the last call: int64 [steps, 1 + 2 × buckets], each `backward_end, issued…,
        completed…` in ns.

        Steps whose number of buckets differs from the last one's are left out, because DDP rearranges its buckets after
        the first step.
        """
        steps, self._steps = self._steps, []
        alike = [step for step in steps if len(step.issued) == len(steps[-1].issued)]
        return torch.tensor([[step.backward_end, *step.issued, *step.completed] for step in alike])
