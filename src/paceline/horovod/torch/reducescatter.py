"""reducescatter combines tensors over all ranks and gives each rank some rows of the result."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from paceline.horovod import job, ops
from paceline.horovod.compression import codec_of
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.shares import scattered_rows
from paceline.horovod.torch.allgather import grouped_allgather
from paceline.horovod.torch.compression import Compression, Compressor, encodes
from paceline.horovod.torch.tensors import (
    back_at,
    copy_of,
    memory_of,
    place_of,
    reducible,
    rows_of,
    scale,
    scaled_by_engine,
    span_of,
    stays,
)
from paceline.horovod.torch.waiting import synchronize
from paceline.torch import cuda

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


def reducescatter_async(
    tensor: Tensor,
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start to combine `tensor` over the ranks; `synchronize` of the returned handle gives this rank's rows of the
    result.

    The rows are shared equally; if the number does not divide, the first ranks get one more each. All ranks pass the
    same shape and dtype. op: Average or Sum. Raises ValueError for a scalar or a dtype that cannot be reduced, and
    HorovodInternalError for another op.
    """
    return _start([tensor], False, name, op, process_set, prescale_factor, postscale_factor)


def reducescatter(
    tensor: Tensor,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Tensor:
    """Return this rank's rows of the combined tensor; see `reducescatter_async`.

    The gradient is gathered from all ranks and multiplied by both factors and, for Sum, by the number of ranks.
    """
    compressed, context = compression.compress(tensor)
    (part,) = _Reducescatter.apply(
        False, name, op, process_set, prescale_factor, postscale_factor, codec_of(compression), compressed
    )
    restored: Tensor = compression.decompress(part, context)
    return restored


def grouped_reducescatter_async(
    tensors: Sequence[Tensor],
    name: str | None = None,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> int:
    """Start to combine several tensors, each as `reducescatter_async` does; `synchronize` gives a list."""
    return _start(tensors, True, name, op, process_set, prescale_factor, postscale_factor)


def grouped_reducescatter(
    tensors: Sequence[Tensor],
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int = ops.Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[Tensor]:
    """Return this rank's rows of several combined tensors; see `reducescatter`."""
    if not tensors:
        raise ValueError("a grouped reducescatter needs at least one tensor")
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in tensors], strict=True)
    parts = _Reducescatter.apply(
        True, name, op, process_set, prescale_factor, postscale_factor, codec_of(compression), *compressed
    )
    return [compression.decompress(part, context) for part, context in zip(parts, contexts, strict=True)]


class _Reducescatter(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        grouped: bool,
        name: str | None,
        op: int,
        process_set: ProcessSet,
        prescale: float,
        postscale: float,
        codec: str | None,
        *tensors: Tensor,
    ) -> Any:
        ctx.process_set = process_set
        ctx.factor = prescale * postscale * (_size(process_set) if op == ops.Sum else 1)
        result = synchronize(_start(tensors, grouped, name, op, process_set, prescale, postscale, codec))
        return tuple(result) if grouped else (result,)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        scaled = [gradient * ctx.factor for gradient in gradients]
        return None, None, None, None, None, None, None, *grouped_allgather(scaled, process_set=ctx.process_set)


def _size(process_set: ProcessSet) -> int:
    return job.current().channel(process_set.process_set_id, "Reducescatter").size


def _start(
    tensors: Sequence[Tensor],
    grouped: bool,
    name: str | None,
    op: int,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
    codec: str | None = None,
) -> int:
    if op not in (ops.Average, ops.Sum):
        raise HorovodInternalError("Reducescatter currently only supports AVERAGE and SUM.")
    if not tensors:
        raise ValueError("a grouped reducescatter needs at least one tensor")
    here = job.current()
    channel = here.channel(process_set.process_set_id, "Reducescatter")
    names = channel.names("reducescatter", name, len(tensors)) if grouped else [channel.name("reducescatter", name)]
    memories, parts, counts = [], [], []
    try:
        for tensor in tensors:
            reducible(tensor)
            rows = scattered_rows(rows_of(tensor, "reducescatter"), channel.size)
            on_device = stays(channel.coordinator, tensor)
            memory = memory_of(tensor, on_device)
            if prescale != 1.0 and not scaled_by_engine(memory):
                memory = scale(copy_of(tensor, on_device), prescale)
            memories.append(memory)
            shape = (rows[channel.rank], *tensor.shape[1:])
            parts.append(cuda.empty(shape, tensor) if on_device else torch.empty(shape, dtype=tensor.dtype))
            counts.append([share * tensor.shape[1:].numel() for share in rows])
    except Exception as error:
        channel.refuse(names, error)
        raise

    def request(coordinator: Coordinator, each: str, memory: Tensor, part: Tensor, shares: list[int]) -> Request:
        return coordinator.reduce_scatter(
            each,
            span_of(memory),
            span_of(part),
            shares,
            ops.NAMES[op],
            prescale=prescale if scaled_by_engine(memory) else 1.0,
            postscale=postscale if scaled_by_engine(memory) else 1.0,
            shape=tuple(memory.shape),
            codec=codec if encodes(codec, memory.dtype, op) else None,
            on_device=place_of(memory),
        )

    requests = channel.start(names, lambda to: map(request, repeat(to), names, memories, parts, counts))

    def finish() -> Tensor | list[Tensor]:
        scaled = [part if scaled_by_engine(part) else scale(part, postscale) for part in parts]
        results = [back_at(part, tensor) for part, tensor in zip(scaled, tensors, strict=True)]
        return results if grouped else results[0]

    return here.handles.add(Pending(channel, names, requests, finish))
