"""broadcast gives one rank's tensor to all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from paceline.horovod import job, ops
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.allreduce_requests import start as start_allreduce
from paceline.horovod.torch.tensors import (
    back_at,
    bring_back,
    copy_of,
    foreign,
    memory_of,
    movable,
    place_of,
    span_of,
    stays,
)
from paceline.horovod.torch.waiting import synchronize

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


def broadcast_async(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to give every rank the tensor of `root_rank`, a rank of the job; `synchronize` gives a new tensor.

    All ranks pass a tensor of the same shape and dtype. Raises ValueError if the root is not in the process set, and
    for a name that is in flight.
    """
    return start(tensor, False, root_rank, name, process_set)


def broadcast_async_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to give every rank the tensor of `root_rank`, in place; see `broadcast_async`."""
    return start(tensor, True, root_rank, name, process_set)


def broadcast(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Return the tensor of `root_rank` on every rank.

    The root's gradient is the average of all ranks'; others get zeros.
    """
    result: Tensor = _Broadcast.apply(tensor, root_rank, name, process_set)
    return result


def broadcast_(
    tensor: Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Tensor:
    """Give every rank the tensor of `root_rank`, in place, and return it; see `broadcast_async`."""
    result: Tensor = synchronize(start(tensor, True, root_rank, name, process_set))
    return result


class _Broadcast(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, root_rank: int, name: str | None, process_set: ProcessSet) -> Any:
        ctx.is_root = job.current().rank == root_rank
        ctx.process_set = process_set
        return synchronize(start(tensor, False, root_rank, name, process_set))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        average = synchronize(start_allreduce(gradients, False, ops.Average, None, 1.0, 1.0, ctx.process_set))
        return average if ctx.is_root else torch.zeros_like(average), None, None, None


def start(
    tensor: Tensor,
    in_place: bool,
    root_rank: int,
    name: str | None,
    process_set: ProcessSet,
    parameters: bool = False,
) -> int:
    """Start a broadcast and return the handle; see `broadcast_async`.

    parameters: whether the tensor may go as `lossless` between machines, where PACELINE_COMPRESS lets it.
    """
    here = job.current()
    channel = here.channel(process_set.process_set_id, "Broadcast")
    names = [channel.name("broadcast", name)]
    coordinator = channel.coordinator
    try:
        movable(tensor)
        root = channel.root(root_rank)
        codec = coordinator.codec_of_parameters(span_of(tensor)) if parameters else None
        on_device = stays(coordinator, tensor)
        memory = memory_of(tensor, on_device) if in_place else copy_of(tensor, on_device)
    except Exception as error:
        channel.refuse(names, error)
        raise

    def request(coordinator: Coordinator) -> Request:
        shape, place = tuple(memory.shape), place_of(memory)
        return coordinator.broadcast(
            names[0], span_of(memory), root, shape=shape, codec=codec, of=foreign(tensor), on_device=place
        )

    requests = channel.start(names, lambda coordinator: [request(coordinator)])

    def finish() -> Tensor:
        return bring_back(memory, tensor) if in_place else back_at(memory, tensor)

    return here.handles.add(Pending(channel, names, requests, finish))
