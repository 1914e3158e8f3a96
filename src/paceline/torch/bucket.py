"""Several parameters' gradients as one piece of arena memory, and which of them are there."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from torch.nn import Parameter

from paceline.torch.memory import empty

_LINE = 64
"""Bytes of a cache line, where each gradient begins."""


def assign(parameters: Iterable[Parameter], bucket_bytes: int) -> list[list[Parameter]]:
    """The parameters in buckets of one dtype each; a bucket is full once it holds `bucket_bytes`.

    The first bucket is the first to be full: if gradients come in this order, buckets get complete in theirs.
    """
    full: list[list[Parameter]] = []
    growing: dict[torch.dtype, list[Parameter]] = {}
    for parameter in parameters:
        bucket = growing.setdefault(parameter.dtype, [])
        bucket.append(parameter)
        if sum(member.nbytes for member in bucket) >= bucket_bytes:
            full.append(growing.pop(parameter.dtype))
    return full + list(growing.values())


class Bucket:
    """The gradients of `parameters`, which are of one dtype, in flat arena memory that is reduced as a whole.

    Behind the gradients lies one number per parameter: whether this rank has its gradient. The mean over the ranks
    then says whether any has, so that a gradient which nobody has stays None everywhere.
    """

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        # A parameter holds its hooks, and those the buckets: only weak references let all of them go.
        self._parameters = [weakref.ref(parameter) for parameter in parameters]
        dtype = parameters[0].dtype
        step = _LINE // dtype.itemsize
        begins = [0]
        for parameter in parameters:
            begins.append(begins[-1] + -(-parameter.numel() // step) * step)
        self.flat = empty(begins[-1] + len(parameters), dtype=dtype).zero_()
        # Not views in torch's sense, which restricts what may be done to them.
        storage = self.flat.untyped_storage()
        self.views = [
            torch.empty(0, dtype=dtype).set_(storage, begin, parameter.shape, torch.empty_like(parameter).stride())
            for begin, parameter in zip(begins, parameters, strict=False)
        ]
        self._present = self.flat[begins[-1] :]
        self._missing: set[int] = set()
        self.begin()

    @property
    def complete(self) -> bool:
        """Whether every gradient of this pass is there."""
        return not self._missing

    def begin(self) -> None:
        """A new backward pass: no gradient has come yet."""
        self._missing = set(range(len(self.views)))
        self._present.fill_(1)

    def arrived(self, slot: int) -> None:
        """This pass has accumulated the gradient of parameter `slot`, and won't do so again."""
        self._missing.discard(slot)

    def adopt(self, slot: int, parameter: Tensor) -> None:
        """Let the gradient of `parameter` lie here, wherever it was."""
        gradient, view = parameter.grad, self.views[slot]
        if gradient is None or gradient is view:
            return
        if gradient.layout != torch.strided:
            raise TypeError(f"a bucket holds dense gradients only, found one of layout {gradient.layout}")
        view.copy_(gradient.detach())
        parameter.grad = view

    def close(self) -> None:
        """No more gradients come in this pass: the missing ones count as they were before it, or as zero if None."""
        for slot, parameter in self._left_out():
            if parameter is not None and parameter.grad is not None:
                self.adopt(slot, parameter)
            else:
                self.views[slot].zero_()
                self._present[slot] = 0

    def settle(self) -> None:
        """The bucket was reduced: gradients that another rank has appear here too."""
        for slot, parameter in self._left_out():
            if parameter is not None and parameter.grad is None and self._present[slot] != 0:
                parameter.grad = self.views[slot]

    def _left_out(self) -> Iterator[tuple[int, Parameter | None]]:
        for slot in self._missing:
            yield slot, self._parameters[slot]()
