"""How an allreduce becomes requests to the coordinator: an all-reduce each, or for Adasum an all-gather each."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from paceline.adasum import adasum
from paceline.horovod import job, ops
from paceline.horovod.handles import Pending
from paceline.horovod.process_sets import ProcessSet
from paceline.horovod.torch.tensors import bring_back, copy_in_host, from_rows, in_host, reducible, scale, span_of

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


@dataclass(frozen=True, slots=True)
class _Call:
    tensors: Sequence[Tensor]
    in_place: bool
    op: int
    prescale: float
    postscale: float


def start(
    tensors: Sequence[Tensor],
    in_place: bool,
    op: int,
    name: str | None,
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    grouped: bool = False,
) -> int:
    """Start to combine the tensors; returns the handle. The result is a list if they are `grouped`."""
    if not tensors:
        raise ValueError("a grouped allreduce needs at least one tensor")
    for tensor in tensors:
        reducible(tensor)
    if op == ops.Adasum and not all(tensor.is_floating_point() for tensor in tensors):
        raise ValueError("Adasum combines floating-point tensors")
    here = job.current()
    channel = here.channel(process_set.process_set_id, "Allreduce")
    names = channel.names("allreduce", name, len(tensors)) if grouped else [channel.name("allreduce", name)]
    bundle = (_number(names[0]), len(tensors)) if len(tensors) > 1 else None
    call = _Call(tensors, in_place, op, prescale, postscale)
    memories = [_memory(tensor, call) for tensor in tensors]
    requests = channel.start(
        names,
        lambda: [_request(channel.coordinator, *pair, call, bundle) for pair in zip(names, memories, strict=True)],
    )

    def finish() -> Any:
        triples = zip(requests, memories, tensors, strict=True)
        results = [_result(request, memory, tensor, call) for request, memory, tensor in triples]
        return results if grouped else results[0]

    return here.handles.add(Pending(channel, names, requests, finish, memories))


def _memory(tensor: Tensor, call: _Call) -> Tensor:
    if call.op == ops.Adasum:
        row = in_host(tensor).reshape(1, -1)
        return row if call.prescale == 1.0 else row * call.prescale
    memory = in_host(tensor) if call.in_place else copy_in_host(tensor)
    return memory if tensor.is_floating_point() else scale(memory, call.prescale)


def _request(
    coordinator: Coordinator, name: str, memory: Tensor, call: _Call, bundle: tuple[int, int] | None
) -> Request:
    shape = tuple(memory.shape)
    if call.op == ops.Adasum:
        return coordinator.all_gather(name, span_of(memory), shape=shape)
    prescale, postscale = (call.prescale, call.postscale) if memory.is_floating_point() else (1.0, 1.0)
    return coordinator.all_reduce(
        name,
        span_of(memory),
        ops.NAMES[call.op],
        prescale=prescale,
        postscale=postscale,
        bundle=bundle,
        shape=shape,
    )


def _result(request: Request, memory: Tensor, tensor: Tensor, call: _Call) -> Tensor:
    if call.op == ops.Adasum:
        memory = _adasum(request, memory).view(tensor.shape)
        memory = memory if call.postscale == 1.0 else memory * call.postscale
    elif not memory.is_floating_point():
        scale(memory, call.postscale)
    return bring_back(memory, tensor) if call.in_place else memory.to(tensor.device)


def _adasum(request: Request, row: Tensor) -> Tensor:
    """All ranks combine the same rows in the same way. A rank that has joined gave none, which is as good as zeros."""
    if not row.numel():
        return row.clone()
    rows, _ = from_rows(request.output, request.counts, row)
    narrow = rows.dtype == torch.bfloat16  # NumPy has no such type
    total = adasum(list((rows.float() if narrow else rows).numpy()))
    return torch.from_numpy(total).to(row.dtype)


def _number(name: str) -> int:
    """The same number on all ranks for a group's name; never 0."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big") | 1
