"""Turns an allreduce into requests to the coordinator: one all-reduce per tensor, or the steps of Adasum's exchange."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from paceline.horovod import adasum_requests, job, ops
from paceline.horovod.adasum_exchange import Course
from paceline.horovod.channel import bundle_of
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.compression import encodes
from paceline.horovod.torch.tensors import (
    back_at,
    bring_back,
    copy_of,
    from_rows,
    in_host,
    memory_of,
    place_of,
    reducible,
    scale,
    scaled_by_engine,
    span_of,
    stays,
)

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


@dataclass(frozen=True, slots=True)
class _Call:
    tensors: Sequence[Tensor]
    in_place: bool
    op: int
    prescale: float
    postscale: float
    codec: str | None


def start(
    tensors: Sequence[Tensor],
    in_place: bool,
    op: int,
    name: str | None,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    grouped: bool = False,
    codec: str | None = None,
    residuals: Sequence[Tensor | None] | None = None,
) -> int:
    """Start to combine the tensors and return the handle. The call's result is a list if the tensors are `grouped`.

    codec: how sums and averages of float32 are encoded between machines. residuals: for each tensor, what that has lost
    on this rank, flat, on the device where the tensor `stays` or else on the CPU.

    Raises ValueError for no tensors, for a dtype that cannot be reduced, for Adasum of integers, and for a name in
    flight.
    """
    if not tensors:
        raise ValueError("a grouped allreduce needs at least one tensor")
    here = job.current()
    channel = here.channel(process_set.process_set_id, "Allreduce")
    names = channel.names("allreduce", name, len(tensors)) if grouped else [channel.name("allreduce", name)]
    bundle = bundle_of(names)
    call = _Call(tensors, in_place, op, prescale, postscale, codec)
    try:
        for tensor in tensors:
            reducible(tensor)
        if op == ops.Adasum and not all(tensor.is_floating_point() for tensor in tensors):
            raise ValueError("Adasum combines floating-point tensors")
        memories = [_memory(channel.coordinator, tensor, call) for tensor in tensors]
    except Exception as error:
        channel.refuse(names, error)
        raise
    lost = residuals or [None] * len(tensors)
    requests = channel.start(
        names,
        lambda coordinator: (
            _request(coordinator, *each, call, bundle) for each in zip(names, memories, lost, strict=True)
        ),
        lambda: [
            scale(memory, call.prescale) for memory in memories if op != ops.Adasum and not scaled_by_engine(memory)
        ],
    )

    def finish() -> Tensor | list[Tensor]:
        triples = zip(requests, memories, tensors, strict=True)
        results = [_result(request, memory, tensor, call) for request, memory, tensor in triples]
        return results if grouped else results[0]

    return here.handles.add(Pending(channel, names, requests, finish))


def _memory(coordinator: Coordinator, tensor: Tensor, call: _Call) -> Tensor:
    if call.op == ops.Adasum:
        row = in_host(tensor).reshape(1, -1)
        return row if call.prescale == 1.0 else row * call.prescale
    on_device = stays(coordinator, tensor)
    return memory_of(tensor, on_device) if call.in_place else copy_of(tensor, on_device)


def _request(
    coordinator: Coordinator,
    name: str,
    memory: Tensor,
    residual: Tensor | None,
    call: _Call,
    bundle: tuple[int, int] | None,
) -> Request | Course:
    shape = tuple(memory.shape)
    if call.op == ops.Adasum:
        return adasum_requests.start(coordinator, name, span_of(memory), lambda: _numbers(memory))
    encoded = encodes(call.codec, memory.dtype, call.op)
    prescale, postscale = (call.prescale, call.postscale) if scaled_by_engine(memory) else (1.0, 1.0)
    return coordinator.all_reduce(
        name,
        span_of(memory),
        ops.NAMES[call.op],
        prescale=prescale,
        postscale=postscale,
        bundle=bundle,
        shape=shape,
        codec=call.codec if encoded else None,
        residual=span_of(residual) if encoded and residual is not None else None,
        on_device=place_of(memory),
    )


def _result(request: Request | Course, memory: Tensor, tensor: Tensor, call: _Call) -> Tensor:
    if call.op == ops.Adasum:
        memory = _adasum(request, memory).view(tensor.shape)
        memory = memory if call.postscale == 1.0 else memory * call.postscale
    elif not scaled_by_engine(memory):
        scale(memory, call.postscale)
    return bring_back(memory, tensor) if call.in_place else back_at(memory, tensor)


def _adasum(request: Request | Course, row: Tensor) -> Tensor:
    if not row.numel():
        return row.clone()
    result = adasum_requests.result(
        request, lambda gathered: _numbers(from_rows(gathered.output, gathered.counts, row)[0])
    )
    return torch.from_numpy(result).to(row.dtype)


def _numbers(tensor: Tensor) -> NDArray[Any]:
    plain = tensor.float() if tensor.dtype == torch.bfloat16 else tensor  # NumPy has no bfloat16
    numbers: NDArray[Any] = plain.numpy()
    return numbers
