"""The kernels of allreduce and reducescatter."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from paceline.coordinate import Span
from paceline.horovod import adasum_requests, ops
from paceline.horovod.adasum_exchange import Course
from paceline.horovod.channel import Channel, bundle_of
from paceline.horovod.handles import Pending
from paceline.horovod.shares import scattered_rows
from paceline.horovod.tensorflow.kernels.call import Call
from paceline.horovod.tensorflow.kernels.memory import Memory, combined, numpy_dtype, reducible, scale
from paceline.horovod.tensorflow.kernels.node import Node

if TYPE_CHECKING:
    from paceline._engine import PreparedAllReduce
    from paceline.coordinate import Coordinator, Request
    from paceline.errors import CommunicationError


def prepared(
    node: Node, channel: Channel, call: Call, failed: Callable[[int, CommunicationError | ValueError], None]
) -> PreparedAllReduce | None:
    """Prepare a call and those that come after it, if it is an all-reduce that the engine can make alone.

    That is one of a single tensor with a name, of which the engine does the scaling; Adasum is not. For `failed`, and
    for what else has to be, see `Coordinator.prepare_all_reduce`.
    """
    named = node.name or node.names
    if not node.op.startswith("Allreduce") or len(call.tensors) != 1 or not named or node.reduction == ops.Adasum:
        return None
    (memory,) = call.tensors
    if not combined(memory) or (not memory.floating() and (node.prescale, node.postscale) != (1.0, 1.0)):
        return None
    (name,) = node.requests(channel, 1)
    span, codec = memory.span(), _codec(node, memory)
    return channel.coordinator.prepare_all_reduce(
        name,
        span.count,
        span.dtype,
        failed,
        ops.NAMES[node.reduction],
        prescale=node.prescale,
        postscale=node.postscale,
        shape=memory.shape,
        codec=codec,
        residual=call.residuals.of(node.process_set, name, span.count) if node.error_feedback and codec else None,
    )


def allreduce(node: Node, channel: Channel, call: Call) -> Pending[None]:
    """Combine each tensor over the ranks, in place."""
    names = node.requests(channel, len(call.tensors))
    try:
        for memory in call.tensors:
            reducible(memory)
            if node.reduction == ops.Adasum and not memory.floating():
                raise ValueError("Adasum combines floating-point tensors")
    except Exception as error:
        channel.refuse(names, error)
        raise
    bundle = bundle_of(names) if node.grouped else None

    residuals = [
        call.residuals.of(node.process_set, name, memory.span().count)
        if node.error_feedback and _codec(node, memory)
        else None
        for name, memory in zip(names, call.tensors, strict=True)
    ]

    def begin() -> None:
        for memory in call.tensors:
            if not memory.floating() or node.reduction == ops.Adasum:
                scale(memory.array(), node.prescale)

    def request(
        coordinator: Coordinator, name: str, memory: Memory, residual: NDArray[np.float32] | None
    ) -> Request | Course:
        if node.reduction == ops.Adasum:
            return adasum_requests.start(coordinator, name, memory.span(), memory.array)
        prescale, postscale = (node.prescale, node.postscale) if memory.floating() else (1.0, 1.0)
        return coordinator.all_reduce(
            name,
            memory.span(),
            ops.NAMES[node.reduction],
            prescale=prescale,
            postscale=postscale,
            bundle=bundle,
            shape=memory.shape,
            codec=_codec(node, memory),
            residual=None if residual is None else Span.of(residual),
        )

    requests = channel.start(names, lambda to: map(request, repeat(to), names, call.tensors, residuals), begin)

    def finish() -> None:
        for one, memory in zip(requests, call.tensors, strict=True):
            if node.reduction == ops.Adasum and memory.bytes:
                _take_adasum(one, memory)
            if not memory.floating() or node.reduction == ops.Adasum:
                scale(memory.array(), node.postscale)

    return Pending(channel, names, requests, finish)


def _codec(node: Node, memory: Memory) -> str | None:
    """Return the codec of this tensor between machines; None if it goes as it is."""
    encoded = numpy_dtype(memory.dtype) == np.float32 and node.reduction in (ops.Average, ops.Sum)
    return node.codec if node.codec and encoded else None


def _take_adasum(request: Request | Course, memory: Memory) -> None:
    numbers = memory.array()

    def rows(gathered: Request) -> np.ndarray:
        assert gathered.output is not None
        flat = np.frombuffer(gathered.output, numbers.dtype, sum(gathered.counts))  # type: ignore[call-overload]
        return flat.reshape(-1, numbers.size)  # type: ignore[no-any-return]

    numbers[...] = adasum_requests.result(request, rows).reshape(numbers.shape).astype(numbers.dtype)


def reducescatter(node: Node, channel: Channel, call: Call) -> Pending[None]:
    """Combine each tensor over the ranks, and give this rank its rows."""
    names = node.requests(channel, len(call.tensors))
    try:
        if node.reduction not in ops.NAMES:
            raise ValueError("Adasum is not there for reducescatter: use hvd.Average, Sum, Min, Max or Product")
        sources = [_scaled(memory, node.prescale) for memory in call.tensors]
        shares = [scattered_rows(memory.rows("reducescatter"), channel.size) for memory in call.tensors]
        parts = [
            call.output(index, memory.dtype, (rows[channel.rank], *memory.shape[1:]))
            for index, (memory, rows) in enumerate(zip(call.tensors, shares, strict=True))
        ]
    except Exception as error:
        channel.refuse(names, error)
        raise

    def request(
        coordinator: Coordinator,
        name: str,
        memory: Memory,
        source: tuple[Memory, object],
        part: Memory,
        rows: list[int],
    ) -> Request:
        prescale, postscale = (node.prescale, node.postscale) if memory.floating() else (1.0, 1.0)
        return coordinator.reduce_scatter(
            name,
            source[0].span(),
            part.span(),
            [share * memory.row_width() for share in rows],
            ops.NAMES[node.reduction],
            prescale=prescale,
            postscale=postscale,
            shape=memory.shape,
            codec=_codec(node, memory),
        )

    requests = channel.start(names, lambda to: map(request, repeat(to), names, call.tensors, sources, parts, shares))

    def finish() -> None:
        for part in parts:
            if not part.floating():
                scale(part.array(), node.postscale)

    return Pending(channel, names, requests, finish)


def _scaled(memory: Memory, factor: float) -> tuple[Memory, object]:
    """Return memory to reduce from, and what keeps it alive.

    Integers are scaled in a copy, because others may use the input.
    """
    reducible(memory)
    if memory.floating() or factor == 1.0:
        return memory, None
    copy = memory.array().copy()
    scale(copy, factor)
    return Memory(copy.ctypes.data, memory.bytes, memory.dtype, memory.shape), copy
