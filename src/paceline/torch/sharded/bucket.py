"""Several parameters and their gradients, of which each rank owns a shard."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.torch.bucket import Bucket, described, is_at, move
from paceline.torch.channel import start_all_reduce
from paceline.torch.first_values import broadcast_values
from paceline.torch.flat import FlatLayout, clear
from paceline.torch.history import History
from paceline.torch.memory import empty
from paceline.torch.residuals import Residuals
from paceline.torch.sharded.exact import ExactShard
from paceline.torch.work import WorkGroup

LINE = 256
"""Bytes. Parameters begin, and shards end, at multiples of it. No vector loop of torch works on more at a time, so an
element of a shard goes through the same instructions as in its whole parameter: results are the same bits."""


class Piece(NamedTuple):
    """The piece of one parameter that a rank owns: its elements from `begin` to `end`, in the order of memory.

    at: where it begins in the rank's shard. values, gradient: of shape (elements,), or () if the parameter's is ().
    """

    slot: int
    begin: int
    end: int
    at: int
    values: Tensor
    gradient: Tensor


class AllGather(Protocol):
    """Puts all ranks' blocks into `output`, the ranks' in their order."""

    lossy: bool

    def __call__(self, output: Tensor, block: Tensor) -> dist.Work:
        """Start."""


class ReduceScatter(Protocol):
    """Leaves the mean of all ranks' `flat` gradients in the owners' blocks of it, of which this rank's is `block`.

    residuals: what that loses on this rank and adds the next time; None if nothing.
    """

    residuals: Residuals | None

    def __call__(
        self,
        block: Tensor,
        flat: Tensor,
        parameters: Sequence[Tensor],
        begins: Sequence[int],
        absent: Collection[int],
    ) -> dist.Work:
        """Start. begins: the element at which the gradient of each of `parameters` begins. absent: as of Residuals."""


class ShardBucket(Bucket):
    """Parameters and gradients of one dtype, each in flat memory of `ranks` equal blocks. `rank` owns a block of both.

    An exchange leaves the mean of the gradients in the owners' blocks. The rest of `p.grad` is this rank's alone.
    reduce_scatter: of the gradients. all_gather: of the values. exact: this rank's values, if that is lossy.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        rank: int,
        ranks: int,
        reduce_scatter: ReduceScatter,
        all_gather: AllGather,
    ) -> None:
        self.layout = layout = FlatLayout(parameters, LINE)
        line = LINE // layout.dtype.itemsize
        self.shard_numel = -(-layout.numel // (ranks * line)) * line
        flat, self._values = (empty(ranks * self.shard_numel, dtype=layout.dtype).zero_() for _ in range(2))
        super().__init__(parameters, layout, flat)
        self._gaps, self._value_gaps = layout.gaps(flat), layout.gaps(self._values)
        self._value_views = layout.views(self._values)
        self._ranks = ranks
        self._shard = slice(rank * self.shard_numel, (rank + 1) * self.shard_numel)
        self._reduce_scatter = reduce_scatter
        if reduce_scatter.residuals is not None:
            self.history = History(parameters)
        self._all_gather = all_gather
        self.exact = ExactShard(self._values[self._shard]) if all_gather.lossy else None
        self.pieces = [piece for slot in range(len(parameters)) if (piece := self._piece(slot, parameters[slot]))]
        self._owned = {piece.slot: piece.gradient for piece in self.pieces}
        self._present = torch.ones(len(parameters), dtype=torch.uint8)
        self._mean: set[int] = set()  # slots whose gradient is the mean over the ranks, where this rank owns it
        self.reclaim(described)

    def _piece(self, slot: int, parameter: Tensor) -> Piece | None:
        start = self.layout.begins[slot]
        first, last = max(start, self._shard.start), min(start + parameter.numel(), self._shard.stop)
        if first >= last:
            return None
        at, length = first - self._shard.start, last - first
        owned = self._values[self._shard] if self.exact is None else self.exact.values
        blocks = owned, self.flat[self._shard]
        values, gradient = (block[at : at + length].view((length,) if parameter.dim() else ()) for block in blocks)
        return Piece(slot, first - start, last - start, at, values.requires_grad_(), gradient)

    # -- gradients ----------------------------------------------------------------------------------------------

    def accumulates(self, slot: int) -> None:
        """A gradient is about to be added to `p.grad` of parameter `slot`, which must then be this rank's alone."""
        parameter = self._parameters[slot]()
        if slot in self._mean and parameter is not None:
            self._mean.discard(slot)
            self._make_own(slot, parameter)

    def _make_own(self, slot: int, parameter: Tensor) -> None:
        """Let a mean over the ranks be this rank's part of the next one: its owner has all of it, the others nothing.

        So the user may change it as any gradient: what is set to zero has no part, what is scaled has that part.
        """
        if parameter.grad is None:
            return
        self.adopt(slot, parameter)
        owned = self._owned.get(slot)
        share = None if owned is None else owned * self._ranks
        self.views[slot].zero_()
        if owned is not None and share is not None:
            owned.copy_(share)

    def begin(self) -> None:
        """A new backward pass: no gradient has come yet."""
        super().begin()
        self._present.fill_(1)

    def close(self) -> None:
        """The missing gradients count as they were before this pass, or as zero if None."""
        for slot, parameter in self.left_out():
            if parameter is None or parameter.grad is None:
                self.views[slot].zero_()
                self._present[slot] = 0
            elif slot in self._mean:
                self._make_own(slot, parameter)
            else:
                self.adopt(slot, parameter)

    def exchange(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to reduce-scatter the gradients, and to learn which of them any rank has."""
        clear(self._gaps)
        if self.history is not None and self.history.undone and self._reduce_scatter.residuals is not None:
            self._reduce_scatter.residuals.forget(self.parameters)
        absent = {slot for slot, present in enumerate(self._present.tolist()) if not present}
        reduced = self._reduce_scatter(self.flat[self._shard], self.flat, self.parameters, self.layout.begins, absent)
        present = start_all_reduce(self._present, dist.ReduceOp.MAX, group)
        return WorkGroup([reduced, present])

    def settle(self) -> None:
        """Gradients that another rank has appear here too."""
        super().settle()
        self._mean.update(self.found())

    def found(self) -> Iterator[int]:
        """The slots of which some rank had a gradient in this exchange."""
        return (slot for slot, present in enumerate(self._present.tolist()) if present)

    def not_exchanged(self) -> Tensor | None:
        """Some parameter whose gradient is not the mean over the ranks."""
        for slot, reference in enumerate(self._parameters):
            parameter = reference()
            if parameter is not None and parameter.grad is not None and slot not in self._mean:
                return parameter
        return None

    # -- values -------------------------------------------------------------------------------------------------

    def reclaim(self, name: Callable[[Tensor], str]) -> None:
        """Let the parameters lie here, wherever they are. name: of one, for an error."""
        for slot, view in enumerate(self._value_views):
            parameter = self._parameters[slot]()
            if parameter is not None and not is_at(parameter, view):
                if parameter.dtype != view.dtype or parameter.shape != view.shape:
                    raise RuntimeError(
                        f"{name(parameter)} was {described(view)} when its optimizer was made and is now "
                        f"{described(parameter)}: make a new ShardedOptimizer after such a change"
                    )
                move(parameter, view)
                parameter.data = view
        if self.exact is not None:
            self.exact.take_over()

    def lend_gradients(self) -> list[Tensor]:
        """Give each piece its gradient, if there is one; returns those."""
        found = []
        for piece in self.pieces:
            parameter = self._parameters[piece.slot]()
            piece.values.grad = None
            if parameter is not None and parameter.grad is not None:
                self.adopt(piece.slot, parameter)
                piece.values.grad = piece.gradient
                found.append(piece.gradient)
        return found

    def gather(self) -> dist.Work:
        """Start to give every rank the other owners' values; `gathered` ends it."""
        return self._all_gather(self._values, self._values[self._shard] if self.exact is None else self.exact.values)

    def gathered(self) -> None:
        """All values are there."""
        if self.history is not None:
            self.history.step()
        if self.exact is not None:
            clear(self._value_gaps)
            self.exact.encoded()

    def broadcast(self, group: dist.ProcessGroup | None) -> None:
        """Give every rank the values of the group's first one."""
        broadcast_values(self._values, group)
        if self.exact is not None:
            self.exact.restart()
