"""A bucket of gradients that become their mean over the ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.process.current import running
from paceline.settings.names import LOSSLESS, NONE
from paceline.torch.bucket import CACHE_LINE, Bucket
from paceline.torch.channel import start_all_reduce
from paceline.torch.flat import FlatLayout, clear
from paceline.torch.memory import empty
from paceline.torch.work import WorkGroup


class MeanBucket(Bucket):
    """Gradients in the arena that become their mean over the ranks.

    gradients: all of them, flat. present: a number for each parameter that says whether this rank has its gradient, and
    after the exchange whether any has, so that a gradient which nobody has stays None everywhere. These numbers travel
    with the gradients, but apart from them where a codec could change them.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.layout = layout = FlatLayout(parameters, CACHE_LINE)
        flat = empty(layout.numel + len(parameters), dtype=layout.dtype).zero_()
        super().__init__(parameters, layout, flat)
        self.gradients, self._beside = flat[: layout.numel], flat[layout.numel :]
        self._gaps = layout.gaps(self.gradients)
        self._apart = False  # whether `present` travels by itself
        self.present = torch.ones(len(parameters), dtype=torch.uint8)
        self.begin()

    def begin(self) -> None:
        """A new backward pass: no gradient has come yet."""
        super().begin()
        self.present.fill_(1)

    def close(self) -> None:
        """The missing gradients count as they were before this pass, or as zero if None."""
        for slot, parameter in self.left_out():
            if parameter is not None and parameter.grad is not None:
                self.adopt(slot, parameter)
            else:
                self.views[slot].zero_()
                self.present[slot] = 0

    @property
    def encoded(self) -> bool:
        """True if the gradients may be encoded between machines, which may change them."""
        process = running()
        return process is not None and process.settings.compress not in (NONE, LOSSLESS)

    def exchange(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to make them the mean over the ranks of `group`, and to learn which of them any rank has."""
        self._apart = self.encoded
        if not self._apart:
            self._beside.copy_(self.present)
            return start_all_reduce(self.flat, dist.ReduceOp.AVG, group)
        clear(self._gaps)
        return WorkGroup([self.mean(group), start_all_reduce(self.present, dist.ReduceOp.MAX, group)])

    def mean(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to make the gradients their mean over the ranks of `group`."""
        return start_all_reduce(self.gradients, dist.ReduceOp.AVG, group)

    def settle(self) -> None:
        """Gradients that another rank has appear here too."""
        if not self._apart:
            self.present.copy_(self._beside != 0)
        super().settle()

    def found(self) -> Iterator[int]:
        """The slots of which some rank had a gradient in this exchange."""
        return (slot for slot, present in enumerate(self.present.tolist()) if present)
