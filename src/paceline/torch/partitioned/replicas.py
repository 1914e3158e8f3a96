"""Gradients of a stage become their mean over the replicas, from the last microbatch's backward on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch.distributed as dist
from torch import Tensor

from paceline.settings.names import NONE
from paceline.torch.bucket import BUCKET_BYTES, assign, require_dense
from paceline.torch.compression import Compression
from paceline.torch.encoded_bucket import EncodedBucket


class StageGradients:
    """The gradients of `parameters`, in buckets that begin with the last ones.

    parameters: by name. codec: how gradients are encoded between machines, with error feedback; None for as they are.
    group: the ranks that have the same parameters; None if there is no other. copies: in how many partitions they are;
    the gradients of those add up, and their sums' mean over the replicas is taken. first: whether this is the first of
    these partitions. exchanged: whether gradients are exchanged at the end of a step.
    """

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        group: dist.ProcessGroup | None,
        codec: str | None = None,
        copies: int = 1,
        first: bool = True,
    ) -> None:
        self.exchanged = True
        self._group = group
        self._copies = copies
        self._first = first
        self._whole = False
        self._compression = Compression(group, codec or NONE, parameters) if group else None
        self._buckets = [
            EncodedBucket(index, some, self._compression)
            for index, some in enumerate(assign(reversed(list(parameters.values())), BUCKET_BYTES))
            if self._compression is not None
        ]
        self._names = {id(parameter): name for name, parameter in parameters.items()}
        self._works: list[dist.Work] = []
        self._last = False
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._accumulated, index, slot))  # type: ignore[no-untyped-call]
            for index, bucket in enumerate(self._buckets)
            for slot, parameter in enumerate(bucket.parameters)
        ]

    def begin(self) -> None:
        """A step begins, whose gradients add to those of the steps before.

        Sums over the partitions are on each of them, and would be added up again: only the first one keeps them.
        """
        for bucket in self._buckets:
            bucket.forget_undone()
        if self._whole and not self._first:
            for bucket in self._buckets:
                for parameter in bucket.parameters:
                    if parameter.grad is not None:
                        parameter.grad.zero_()
        self._whole = False

    def begin_last(self) -> None:
        """The last backward of a step begins: each gradient that comes now is whole."""
        if not self.exchanged:
            return
        for bucket in self._buckets:
            bucket.begin()
        self._works = []
        self._last = True

    def end_last(self) -> None:
        """The last backward is over: start to exchange all that has not been started."""
        if not self.exchanged:
            return
        self._last = False
        for bucket in self._buckets[len(self._works) :]:
            bucket.close()
            self._works.append(bucket.start(self._group))

    def wait(self) -> None:
        """Return once every gradient is the mean, if they are exchanged. Raises what the collectives raise."""
        if not self.exchanged:
            return
        for bucket, work in zip(self._buckets, self._works, strict=True):
            work.wait()
            if self._copies > 1:
                bucket.flat.mul_(self._copies)
            bucket.settle()
        self._whole = True

    def residuals(self) -> dict[str, Tensor]:
        """Return the encoding residuals on this rank, flat, by the parameter's name."""
        return self._compression.state_dict() if self._compression is not None else {}

    def load_residuals(self, state: Mapping[str, Tensor]) -> None:
        """Go on with what `residuals` returned. Raises ValueError if a part is of another size."""
        if self._compression is not None:
            self._compression.load_state_dict(
                {name: part for name, part in state.items() if name in self._names.values()}
            )

    def reset_residuals(self) -> None:
        """Forget what encoding has lost on this rank."""
        if self._compression is not None:
            self._compression.reset_residuals()

    def close(self) -> None:
        """Exchange nothing from here on."""
        for hook in self._hooks:
            hook.remove()

    def _accumulated(self, index: int, slot: int, parameter: Tensor) -> None:
        if self._last:
            require_dense(parameter, lambda one: f'the parameter "{self._names[id(one)]}"')
            bucket = self._buckets[index]
            bucket.adopt(slot, parameter)
            bucket.arrived(slot)
            while len(self._works) < len(self._buckets) and self._buckets[len(self._works)].complete:
                self._works.append(self._buckets[len(self._works)].start(self._group))
