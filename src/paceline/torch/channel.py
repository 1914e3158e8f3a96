"""A channel for gradients: collectives whose order on a rank is their own, and nobody else's."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from paceline.torch.backend import PacelineProcessGroup
from paceline.torch.compat import reduce_scatter_single


def channel_of(group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    """The ranks of `group` on a channel of their own, if the group is Paceline's; else the group itself. A collective.

    Two models' exchanges start when their gradients come, which may be in another order on each rank.
    """
    found: object = dist.group.WORLD if group is None else group
    return found.sibling() if isinstance(found, PacelineProcessGroup) else group


def leave(channel: dist.ProcessGroup | None, group: dist.ProcessGroup | None, works: Sequence[dist.Work]) -> None:
    """Use a channel of `group` no longer. works: the last that were started in it.

    With one of these under way, as after an exception in `backward`, the channel stays and ends with the group: to end
    it would fail what the other ranks do there, before they come to that exception themselves.
    """
    if channel is group or not isinstance(channel, PacelineProcessGroup):
        return
    if all(work.is_completed() for work in works):
        channel.shutdown()


def refuse_next(channel: dist.ProcessGroup | None, error: Exception) -> None:
    """Tell the other ranks, if the channel is Paceline's, that this one starts nothing more in it, and why."""
    if isinstance(channel, PacelineProcessGroup):
        channel.refuse("all_reduce", error)


def start_all_reduce(tensor: Tensor, op: dist.ReduceOp.RedOpType, group: dist.ProcessGroup | None) -> dist.Work:
    """Start to combine a tensor in place over a group of torch's, or a channel of one."""
    if isinstance(group, PacelineProcessGroup):
        return group.allreduce([tensor], op)
    work: dist.Work | None = dist.all_reduce(tensor, op, group, async_op=True)
    assert work is not None
    return work


def start_reduce_scatter(
    output: Tensor, input: Tensor, op: dist.ReduceOp.RedOpType, group: dist.ProcessGroup | None
) -> dist.Work:
    """Start to combine the ranks' `input`, of which this one gets a block, over a group or a channel of one."""
    if isinstance(group, PacelineProcessGroup):
        return group.reduce_scatter_single(output, input, op)
    work: dist.Work = reduce_scatter_single(output, input, op, group=group, async_op=True)
    return work
