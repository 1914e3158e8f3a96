"""allgather concatenates the ranks' tensors along their first dimension, in which they may differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from paceline.horovod import job, ops
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.allreduce_requests import start as start_allreduce
from paceline.horovod.torch.tensors import RowsOnDevice, foreign, from_rows, rows_in_memory, rows_of, span_of, stays
from paceline.horovod.torch.waiting import synchronize

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


def allgather_async(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> int:
    """Start to gather the ranks' tensors; `synchronize` of the returned handle gives all their rows in rank order.

    The ranks' tensors have the same dtype and shape except for the first dimension. Raises ValueError for a scalar and
    for a name that is in flight.
    """
    return _start([tensor], name, process_set, lambda gathered: gathered[0][0])


def gather_for(tensor: Tensor, request: str, of: str, process_set: ProcessSet) -> int:
    """Start to gather the ranks' tensors as `allgather_async` does, for another call.

    request: the name of its request. of: what the tensor holds, in which ranks must agree; see `Coordinator`.
    """
    return _start([tensor], None, process_set, lambda gathered: gathered[0][0], names=[request], of=of)


def allgather(tensor: Tensor, name: str | None = None, process_set: ProcessSet = global_process_set) -> Tensor:
    """Gather the ranks' tensors; see `allgather_async`. The gradient is the average of the ranks' gradients."""
    (result,) = _Allgather.apply(name, process_set, False, tensor)
    gathered: Tensor = result
    return gathered


def grouped_allgather_async(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to gather several tensors, each as `allgather_async` does; `synchronize` gives a list."""
    return _start(tensors, name, process_set, lambda gathered: [rows for rows, _ in gathered], True)


def grouped_allgather(
    tensors: Sequence[Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Tensor]:
    """Gather several tensors of each rank; see `allgather`."""
    return list(_Allgather.apply(name, process_set, True, *tensors))


class _Allgather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, process_set: ProcessSet, grouped: bool, *tensors: Tensor) -> Any:
        gathered = synchronize(_start(tensors, name, process_set, list, grouped))
        me = process_set.rank()
        ctx.process_set = process_set
        ctx.parts = [(sum(counts[:me]), counts[me]) for _, counts in gathered]
        return tuple(rows for rows, _ in gathered)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        handle = start_allreduce(gradients, False, ops.Average, None, 1.0, 1.0, ctx.process_set, True)
        averages = zip(synchronize(handle), ctx.parts, strict=True)
        return None, None, None, *(average.narrow(0, start, count) for average, (start, count) in averages)


def _start(
    tensors: Sequence[Tensor],
    name: str | None,
    process_set: ProcessSet,
    result: Callable[[list[tuple[Tensor, list[int]]]], object],
    grouped: bool = False,
    names: Sequence[str] | None = None,
    of: str = "",
) -> int:
    """Start the call. `result` makes its result from a list of pairs: gathered rows, number of rows of each rank."""
    if not tensors:
        raise ValueError("a grouped allgather needs at least one tensor")
    here = job.current()
    channel = here.channel(process_set.process_set_id, "Allgather")
    if names is None:
        names = channel.names("allgather", name, len(tensors)) if grouped else [channel.name("allgather", name)]
    coordinator = channel.coordinator
    try:
        for tensor in tensors:
            rows_of(tensor, "allgather")
        outputs = [RowsOnDevice(tensor) if stays(coordinator, tensor) else None for tensor in tensors]
        memories = [rows_in_memory(tensor, output is not None) for tensor, output in zip(tensors, outputs, strict=True)]
    except Exception as error:
        channel.refuse(names, error)
        raise

    def request(
        coordinator: Coordinator, each: str, memory: Tensor, tensor: Tensor, output: RowsOnDevice | None
    ) -> Request:
        place = None if output is None else output.place()
        return coordinator.all_gather(
            each, span_of(memory), shape=tuple(tensor.shape), of=of or foreign(tensor), on_device=place
        )

    requests = channel.start(names, lambda to: map(request, repeat(to), names, memories, tensors, outputs))

    def finish() -> object:
        triples = zip(requests, outputs, tensors, strict=True)
        return result(
            [from_rows(output or request.output, request.counts, tensor) for request, output, tensor in triples]
        )

    return here.handles.add(Pending(channel, names, requests, finish))
