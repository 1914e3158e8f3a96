"""alltoall sends some rows of each rank's tensor to each other rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from paceline.horovod import job
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.shares import check_splits
from paceline.horovod.torch.tensors import (
    RowsOnDevice,
    foreign,
    from_rows,
    row_width,
    rows_in_memory,
    rows_of,
    span_of,
    stays,
)
from paceline.horovod.torch.waiting import synchronize

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request

Splits = Tensor | Sequence[int] | None


def alltoall_async(
    tensor: Tensor, splits: Splits = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> int:
    """Start to send the first `splits[0]` rows to rank 0, the next `splits[1]` rows to rank 1, and so on.

    `synchronize` of the returned handle gives the rows received, in rank order, and the number of rows from each rank
    as a tensor with the dtype and device of `splits` (int32 for a list). Without splits all ranks get equal shares. The
    ranks' tensors have the same dtype and shape except for the first dimension. Raises ValueError for splits that do
    not fit the tensor, and for a name that is in flight.
    """
    here = job.current()
    channel = here.channel(process_set.process_set_id, "Alltoall")
    names = [channel.name("alltoall", name)]
    try:
        shares = _shares(splits, rows_of(tensor, "alltoall"), channel.size)
        output = RowsOnDevice(tensor) if stays(channel.coordinator, tensor) else None
        memory = rows_in_memory(tensor, output is not None)
    except Exception as error:
        channel.refuse(names, error)
        raise
    counts = [share * row_width(tensor) for share in shares]

    def request(coordinator: Coordinator) -> Request:
        given = span_of(memory)._replace(count=sum(counts))
        place = None if output is None else output.place()
        return coordinator.all_to_all(
            names[0], given, counts, shape=tuple(tensor.shape), of=foreign(tensor), on_device=place
        )

    requests = channel.start(names, lambda coordinator: [request(coordinator)])

    def finish() -> tuple[Tensor, Tensor]:
        received, rows = from_rows(output or requests[0].output, requests[0].counts, tensor)
        like = splits if isinstance(splits, Tensor) else torch.empty(0, dtype=torch.int32)
        return received, torch.tensor(rows, dtype=like.dtype, device=like.device)

    return here.handles.add(Pending(channel, names, requests, finish))


def alltoall(
    tensor: Tensor, splits: Splits = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the rows received and, if `splits` is given, the number of rows from each rank; see `alltoall_async`.

    Gradients are sent back to the ranks that the rows came from.
    """
    received, counts = _Alltoall.apply(tensor, splits, name, process_set)
    return received if splits is None else (received, counts)


class _Alltoall(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, splits: Splits, name: str | None, process_set: ProcessSet) -> Any:
        received, counts = synchronize(alltoall_async(tensor, splits, name, process_set))
        ctx.process_set, ctx.counts, ctx.rows = process_set, counts, tensor.shape[0]
        ctx.mark_non_differentiable(counts)
        return received, counts

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        back, _ = synchronize(alltoall_async(gradients[0].contiguous(), ctx.counts, None, ctx.process_set))
        left_out = back.new_zeros(ctx.rows - back.shape[0], *back.shape[1:])  # rows that went to nobody
        return torch.cat([back, left_out]) if left_out.shape[0] else back, None, None, None


def _shares(splits: Splits, rows: int, size: int) -> list[int]:
    """Return the number of rows that each rank gets."""
    if isinstance(splits, Tensor):
        if splits.dim() != 1 or splits.is_floating_point() or splits.is_complex() or splits.dtype == torch.bool:
            raise ValueError(
                f"alltoall expects splits to be one row of integers, got {splits.dtype} of shape {list(splits.shape)}"
            )
        splits = splits.tolist()
    return check_splits(splits, rows, size)
