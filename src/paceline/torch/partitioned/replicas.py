"""Gradients of a stage become their mean over the replicas, from the last microbatch's backward on."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch.distributed as dist
from torch import Tensor

from paceline.torch.bucket import BUCKET_BYTES, assign
from paceline.torch.mean_bucket import MeanBucket


class StageGradients:
    """The gradients of `parameters`, in buckets that begin with the last ones.

    group: the ranks that have the same parameters; None if there is no other. copies: in how many partitions they are;
    the gradients of those add up, and their sums' mean over the replicas is taken.
    """

    def __init__(self, parameters: Sequence[Tensor], group: dist.ProcessGroup | None, copies: int = 1) -> None:
        self._group = group
        self._copies = copies
        self._buckets = [MeanBucket(some) for some in assign(reversed(parameters), BUCKET_BYTES)] if group else []
        self._works: list[dist.Work] = []
        self._last = False
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._accumulated, index, slot))  # type: ignore[no-untyped-call]
            for index, bucket in enumerate(self._buckets)
            for slot, parameter in enumerate(bucket.parameters)
        ]

    def begin_last(self) -> None:
        """The last backward of a step begins: each gradient that comes now is whole."""
        for bucket in self._buckets:
            bucket.begin()
        self._works = []
        self._last = True

    def end_last(self) -> None:
        """The last backward is over: start to exchange all that has not been started."""
        self._last = False
        for bucket in self._buckets[len(self._works) :]:
            bucket.close()
            self._works.append(bucket.start(self._group))

    def wait(self) -> None:
        """Return once every gradient is the mean. Raises what the collectives raise."""
        for bucket, work in zip(self._buckets, self._works, strict=True):
            work.wait()
            if self._copies > 1:
                bucket.flat.mul_(self._copies)
            bucket.settle()

    def close(self) -> None:
        """Exchange nothing from here on."""
        for hook in self._hooks:
            hook.remove()

    def _accumulated(self, index: int, slot: int, parameter: Tensor) -> None:
        if self._last:
            bucket = self._buckets[index]
            bucket.adopt(slot, parameter)
            bucket.arrived(slot)
            while len(self._works) < len(self._buckets) and self._buckets[len(self._works)].complete:
                self._works.append(self._buckets[len(self._works)].start(self._group))
