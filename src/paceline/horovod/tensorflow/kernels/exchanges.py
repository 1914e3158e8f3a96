"""The kernels of allgather, broadcast and alltoall."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paceline.coordinate import Span
from paceline.horovod.channel import Channel
from paceline.horovod.handles import Pending
from paceline.horovod.shares import check_splits
from paceline.horovod.tensorflow.kernels.call import Call
from paceline.horovod.tensorflow.kernels.memory import Memory
from paceline.horovod.tensorflow.kernels.node import Node

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


def allgather(node: Node, channel: Channel, call: Call) -> Pending[None]:
    """Give every rank the rows of all ranks, of each tensor."""
    names = node.requests(channel, len(call.tensors))
    try:
        rows = [_Rows(memory, "allgather") for memory in call.tensors]
    except Exception as error:
        channel.refuse(names, error)
        raise
    requests = channel.start(
        names,
        lambda coordinator: [
            coordinator.all_gather(name, each.span, shape=each.memory.shape, of=each.memory.foreign())
            for name, each in zip(names, rows, strict=True)
        ],
    )

    def finish() -> None:
        for index, (request, each) in enumerate(zip(requests, rows, strict=True)):
            each.give(call, index, request)

    return Pending(channel, names, requests, finish)


def alltoall(node: Node, channel: Channel, call: Call) -> Pending[None]:
    """Send the first rows to rank 0, the next to rank 1 and so on; the second input says how many."""
    tensor, splits = call.tensors
    names = node.requests(channel, 1)
    try:
        given = splits.array().tolist() if splits.bytes else None
        shares = check_splits(given, tensor.rows("alltoall"), channel.size)
        rows = _Rows(tensor, "alltoall")
    except Exception as error:
        channel.refuse(names, error)
        raise
    span = rows.span._replace(count=sum(shares) * rows.width)
    requests = channel.start(
        names,
        lambda coordinator: [
            coordinator.all_to_all(
                names[0],
                span,
                [share * rows.width for share in shares],
                shape=rows.memory.shape,
                of=rows.memory.foreign(),
            )
        ],
    )

    def finish() -> None:
        received = rows.give(call, 0, requests[0])
        made = call.output(1, splits.dtype, (channel.size,))
        made.array()[...] = received

    return Pending(channel, names, requests, finish)


def broadcast(node: Node, channel: Channel, call: Call) -> Pending[None]:
    """Give every rank the root's tensors, in place."""
    names = node.requests(channel, len(call.tensors))
    try:
        root = channel.root(node.root)
    except Exception as error:
        channel.refuse(names, error)
        raise

    def start(coordinator: Coordinator, name: str, memory: Memory) -> Request:
        span = memory.span()
        codec = coordinator.codec_of_parameters(span) if node.parameters else None
        return coordinator.broadcast(name, span, root, shape=memory.shape, of=memory.foreign(), codec=codec)

    requests = channel.start(names, lambda coordinator: map(start, repeat(coordinator), names, call.tensors))
    return Pending(channel, names, requests, lambda: None)


class _Rows:
    """A tensor that is sent by rows. Rows without elements get one byte each, so that they can be counted.

    width: the number of elements of `span` in a row; at least 1.
    """

    def __init__(self, memory: Memory, call: str) -> None:
        self.memory = memory
        rows = memory.rows(call)
        self.width = max(memory.row_width(), 1)
        self._counted: NDArray[np.uint8] | None = None if memory.row_width() else np.zeros(rows, np.uint8)
        self.span = memory.span() if self._counted is None else Span.of(self._counted)

    def give(self, call: Call, output: int, request: Request) -> Sequence[int]:
        """Make an output of the rows that were received, and return their numbers by rank."""
        counts = [count // self.width for count in request.counts]
        shape = (sum(counts), *self.memory.shape[1:])
        call.give(output, self.memory.dtype, shape, _bytes(request))
        return counts


def _bytes(request: Request) -> NDArray[Any]:
    if request.output is None or not sum(request.counts):
        return np.empty(0, np.uint8)
    return np.frombuffer(request.output, np.uint8)  # type: ignore[call-overload, no-any-return]
