"""allreduce combines tensors over all ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from paceline.horovod import job, ops
from paceline.horovod.compression import codec_of
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.allgather import gather_for
from paceline.horovod.torch.allreduce_requests import start
from paceline.horovod.torch.compression import Compression, Compressor
from paceline.horovod.torch.waiting import synchronize, taken


def allreduce_async(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to combine `tensor` over the ranks; `synchronize` of the returned handle gives a new tensor.

    Calls of different ranks are matched by name, in whatever order each rank makes them; calls without a name are
    matched in their order. All ranks pass the same shape, dtype and operation.

    op: Average (default), Sum, Adasum, Min, Max or Product; `average` is its older form. prescale_factor,
    postscale_factor: factors by which every rank's tensor is multiplied before and after.

    Raises ValueError for a dtype that cannot be reduced and for a name that is in flight. If the ranks' shapes, dtypes
    or operations differ, `synchronize` raises HorovodInternalError.
    """
    return start([tensor], False, ops.chosen(op, average), name, prescale_factor, postscale_factor, process_set)


def allreduce_async_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to combine `tensor` over the ranks in place; see `allreduce_async`."""
    return start([tensor], True, ops.chosen(op, average), name, prescale_factor, postscale_factor, process_set)


def allreduce(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Combine `tensor` over the ranks into a new tensor; see `allreduce_async`.

    Its gradient is combined in the same way. compression: what `int8`, `int4` and `three_in_one` lose is lost; use
    DistributedOptimizer for error feedback.
    """
    compressed, context = compression.compress(tensor)
    chosen = ops.chosen(op, average)
    result = _Allreduce.apply(
        compressed, name, chosen, prescale_factor, postscale_factor, process_set, codec_of(compression)
    )
    restored: Tensor = compression.decompress(result, context)
    return restored


def allreduce_(
    tensor: Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Tensor:
    """Combine `tensor` over the ranks in place and return it; see `allreduce_async`."""
    chosen = ops.chosen(op, average)
    handle = start([tensor], True, chosen, name, prescale_factor, postscale_factor, process_set)
    result: Tensor = synchronize(handle)
    return result


def grouped_allreduce_async(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to combine several tensors together, each as `allreduce_async` does; `synchronize` gives a list."""
    return start(tensors, False, ops.chosen(op, average), name, prescale_factor, postscale_factor, process_set, True)


def grouped_allreduce_async_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Start to combine several tensors together and in place; see `grouped_allreduce_async`."""
    return start(tensors, True, ops.chosen(op, average), name, prescale_factor, postscale_factor, process_set, True)


def grouped_allreduce(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: type[Compressor] = Compression.none,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Combine several tensors over the ranks, together, into new ones; see `allreduce`."""
    if not tensors:
        raise ValueError("a grouped allreduce needs at least one tensor")
    compressed, contexts = zip(*[compression.compress(tensor) for tensor in tensors], strict=True)
    chosen = ops.chosen(op, average)
    results = _GroupedAllreduce.apply(
        name, chosen, prescale_factor, postscale_factor, process_set, codec_of(compression), *compressed
    )
    return [compression.decompress(result, context) for result, context in zip(results, contexts, strict=True)]


def grouped_allreduce_(
    tensors: Sequence[Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: int | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Tensor]:
    """Combine several tensors over the ranks, together and in place, and return them; see `allreduce_async`."""
    chosen = ops.chosen(op, average)
    handle = start(tensors, True, chosen, name, prescale_factor, postscale_factor, process_set, True)
    results: list[Tensor] = synchronize(handle)
    return results


def sparse_allreduce_async(
    tensor: Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], Tensor]:
    """Start to sum (op=Sum) or average (op=Average) a sparse COO tensor over the ranks.

    Returns a function that waits for the result, an uncoalesced COO tensor, and returns it. Raises ValueError for
    another op.
    """
    if op not in (ops.Sum, ops.Average):
        raise ValueError("sparse_allreduce_async takes op=hvd.Sum or hvd.Average")
    share = job.current().channel(process_set.process_set_id).size if op == ops.Average else 1
    # One request, by the name of an allreduce: a rank that brings a dense tensor disagrees at once.
    indices, values = tensor._indices().t(), tensor._values()
    rows = torch.cat([_as_bytes(indices), _as_bytes(values)], 1)
    of = f"sparse {str(values.dtype).removeprefix('torch.')}{list(tensor.shape)} "
    handle = gather_for(rows, f"allreduce.{name}", of, process_set)
    dtype, shape, width = values.dtype, values.shape[1:], 8 * indices.shape[1]

    def result() -> Tensor:
        gathered: Tensor = taken(handle)
        where = gathered[:, :width].flatten().view(torch.int64).reshape(len(gathered), width // 8)
        found = gathered[:, width:].flatten().view(dtype).reshape(len(gathered), *shape)
        total = found / share if share > 1 else found
        return torch.sparse_coo_tensor(where.t(), total, tensor.shape, check_invariants=False)

    return result


def _as_bytes(rows: Tensor) -> Tensor:
    return rows.flatten().view(torch.uint8).reshape(len(rows), rows.shape[1:].numel() * rows.element_size())


class _Allreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, name: str | None, *arguments: Any) -> Any:
        op, prescale, postscale, process_set, codec = ctx.arguments = arguments
        return synchronize(start([tensor], False, op, name, prescale, postscale, process_set, codec=codec))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (gradient,) = gradients
        return _Allreduce.apply(gradient, None, *ctx.arguments), None, None, None, None, None, None


class _GroupedAllreduce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, name: str | None, *arguments: Any) -> Any:
        op, prescale, postscale, process_set, codec, *tensors = arguments
        ctx.arguments = (op, prescale, postscale, process_set, codec)
        return tuple(synchronize(start(tensors, False, op, name, prescale, postscale, process_set, True, codec)))

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, None, None, None, None, *_GroupedAllreduce.apply(None, *ctx.arguments, *gradients)
