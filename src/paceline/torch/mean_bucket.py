"""A bucket of gradients that become their mean over the ranks."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from paceline.torch.bucket import CACHE_LINE, Bucket
from paceline.torch.flat import FlatLayout
from paceline.torch.memory import empty


class MeanBucket(Bucket):
    """Gradients in the arena that become their mean over the ranks.

    present: one number for each parameter, which lies behind the gradients and says whether this rank has its gradient.
    The mean over the ranks then says whether any has, so that a gradient which nobody has stays None everywhere.
    """

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        self.layout = layout = FlatLayout(parameters, CACHE_LINE)
        flat = empty(layout.numel + len(parameters), dtype=layout.dtype).zero_()
        super().__init__(parameters, layout, flat)
        self.present = flat[layout.numel :]
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

    def start(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to make them the mean over the ranks of `group`."""
        work: dist.Work | None = dist.all_reduce(self.flat, dist.ReduceOp.AVG, group, async_op=True)
        assert work is not None
        return work

    def settle(self) -> None:
        """Gradients that another rank has appear here too."""
        for slot, parameter in self.left_out():
            if parameter is not None and parameter.grad is None and self.present[slot] != 0:
                parameter.grad = self.views[slot]
