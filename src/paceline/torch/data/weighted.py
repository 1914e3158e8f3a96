"""Gradients as the mean over all samples, where ranks have different numbers of them."""

# No `from __future__ import annotations`: torch compares the hook's annotations with the types themselves.
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from paceline.group.group import Group
from paceline.torch.data.layout import copied, samples
from paceline.torch.data.peers import peers


class Weighing(Protocol):
    """Anything that knows what this rank's batch weighs, such as `Loader` and `Weighted`."""

    @property
    def weight(self) -> float:
        """This rank's samples × ranks / samples of all ranks, for the batch that was given last."""
        ...


class Weighted:
    """Batches of this rank's own `loader`, where ranks may have different numbers of batches and of samples.

        for inputs, targets in (batches := paceline.torch.data.Weighted(loader)):
            optimizer.zero_grad()
            (batches.weight * loss(model(inputs), targets)).backward()
            optimizer.step()

    All ranks make as many steps as the one with the most batches; one that has no more is given copies of its first,
    with weight 0. `loss` is a mean over samples, and a batch begins with a tensor whose first dimension is the samples.
    Each batch costs a gather of 1 KiB per rank, in which all ranks of `group` (default: all) take part.

    Raises ValueError on every rank if a rank has no batch at all while others have.
    """

    def __init__(self, loader: Iterable[Any], group: dist.ProcessGroup | Group | None = None) -> None:
        self._loader = loader
        self._peers = peers(group)
        self.weight = 0.0

    def __iter__(self) -> Iterator[Any]:
        batches, spare = iter(self._loader), None
        while True:
            new = next(batches, None)
            if spare is None and new is not None:
                spare = copied(new)  # whoever gets a batch may write to it
            counts = self._peers.gather(-1 if spare is None else 0 if new is None else samples(new))
            if (total := sum(max(0, count) for count in counts)) == 0:
                return
            if -1 in counts:
                raise ValueError(f"rank {counts.index(-1)} has no batch, where others have: it has none to repeat")
            self.weight = counts[self._peers.rank] * self._peers.size / total
            yield copied(spare) if new is None else new


def weighted_hook(state: Weighing, bucket: dist.GradBucket) -> Future[Tensor]:
    """A communication hook for DDP, for the mean over all samples instead of the mean over ranks.

        model.register_comm_hook(loader, paceline.torch.data.weighted_hook)

    The state is the `Loader` or `Weighted` that gives the batches, whose ranks are all ranks. Do not also multiply the
    loss by the weight. Where gradients of several batches are accumulated (`no_sync`), multiply the loss instead, as
    each of the batches has a weight of its own.
    """
    buffer = bucket.buffer()
    if state.weight:
        buffer.mul_(state.weight / dist.get_world_size())
    else:
        buffer.zero_()  # NaN times nothing would be NaN
    work: Any = dist.all_reduce(buffer, async_op=True)
    result: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return result
