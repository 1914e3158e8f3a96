"""Several tensors of one dtype as one piece of flat memory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class FlatLayout:
    """The places of `tensors`, which are of one dtype, in flat memory: in their order, each on a line of its own.

    begins: the first element of each. numel: elements of all, those between them included. A tensor's elements lie in
    the order of its own strides.
    """

    def __init__(self, tensors: Sequence[Tensor], line_bytes: int) -> None:
        self.dtype = tensors[0].dtype
        self._shapes = [(tensor.shape, torch.empty_like(tensor).stride()) for tensor in tensors]
        line = max(1, line_bytes // self.dtype.itemsize)
        self.begins: list[int] = []
        self._gaps: list[tuple[int, int]] = []
        self.numel = 0
        for tensor in tensors:
            self.begins.append(self.numel)
            end = self.numel + tensor.numel()
            self.numel += -(-tensor.numel() // line) * line
            if end < self.numel:
                self._gaps.append((end, self.numel))

    def views(self, flat: Tensor) -> list[Tensor]:
        """The tensors that `flat`, of any dtype, consists of; not views in torch's sense, which restricts those."""
        storage, offset = flat.untyped_storage(), flat.storage_offset()
        return [
            torch.empty(0, dtype=flat.dtype).set_(storage, offset + begin, shape, stride)
            for begin, (shape, stride) in zip(self.begins, self._shapes, strict=True)
        ]

    def gaps(self, flat: Tensor) -> list[Tensor]:
        """The parts of `flat` in which no tensor lies, those behind the last one included."""
        found = [flat[begin:end] for begin, end in self._gaps]
        return found if flat.numel() == self.numel else [*found, flat[self.numel :]]


def clear(gaps: list[Tensor]) -> None:
    """Let parts that have no values be zero before they are encoded: one NaN there spoils its neighbours for ever."""
    if gaps:
        torch._foreach_zero_(gaps)
