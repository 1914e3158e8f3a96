"""The life of a named tensor in the phases of Horovod's timeline: a process for each tensor, a row for each rank.

The names are those of Horovod's documentation (docs/timeline.rst), with PACELINE_ALLREDUCE in place of MPI_ALLREDUCE or
NCCL_ALLREDUCE.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paceline.observe.trace.record import interval, metadata
from paceline.observe.trace.request import Request

FIRST_PID = 1 << 20
"""Trace processes with numbers from here on are tensors; lower numbers are ranks."""
MAX_TENSORS = 8192
"""The number of names that get a trace process of their own; later names share one."""

_KINDS = {
    "all_reduce": "ALLREDUCE",
    "all_gather": "ALLGATHER",
    "broadcast": "BROADCAST",
    "all_to_all": "ALLTOALL",
    "reduce_scatter": "REDUCESCATTER",
    "barrier": "BARRIER",
    "join": "JOIN",
}


class Tensors:
    """Assigns trace processes to tensors, and makes the records that introduce them."""

    def __init__(self) -> None:
        self._pids: dict[str, int] = {}
        self._rows: set[tuple[int, int]] = set()

    def row(self, name: str, rank: int) -> tuple[int, list[dict[str, Any]]]:
        """Return the trace process of a tensor, and records that introduce it and the rank's row if they are new."""
        new = []
        pid = self._pids.get(name)
        if pid is None:
            others = FIRST_PID + MAX_TENSORS
            pid = FIRST_PID + len(self._pids) if len(self._pids) < MAX_TENSORS else others
            if pid != others:
                self._pids[name] = pid
            if pid != others or (others, -1) not in self._rows:
                self._rows.add((pid, -1))
                shown = name if pid != others else "other tensors"
                new = [
                    metadata("process_name", pid, 0, name=shown),
                    metadata("process_sort_index", pid, 0, sort_index=pid),
                ]
        if (pid, rank) not in self._rows:
            self._rows.add((pid, rank))
            new.append(metadata("thread_name", pid, rank, name=f"rank {rank}"))
        return pid, new


class Turns:
    """The times of the batches' turns. A group carries out its batches one after the other, so that is when the batch
    before was done. Requests must arrive in the order in which they ended.
    """

    def __init__(self) -> None:
        self._before: dict[int, int] = {}
        self._batch: dict[int, tuple[int, int]] = {}  # the newest batch, and when its last request was done

    def of(self, request: Request) -> int:
        """Return when the turn of the request's batch came, CLOCK_REALTIME in ns, or 0 if that is unknown."""
        number, done = self._batch.get(request.channel, (request.batch, 0))
        if request.batch != number:
            self._before[request.channel], number, done = done, request.batch, 0
        self._batch[request.channel] = number, max(done, request.done_ns)
        return self._before.get(request.channel, 0)


def slices(
    request: Request, pid: int, rank: int, origin_ns: int, turn_ns: int = 0, ready: Mapping[int, int] | None = None
) -> Iterable[dict[str, Any]]:
    """Yield the records of the phases of one request.

    origin_ns: the time that becomes 0. turn_ns: when the turn of its batch came, see `Turns`; 0 if unknown. ready: when
    each rank submitted it, as far as known; each is shown as a tick.

    All times are CLOCK_REALTIME in ns.
    """
    kind = _KINDS.get(request.kind, request.kind.upper())

    def phase(name: str, begin: int, end: int, **arguments: object) -> dict[str, Any]:
        return interval(name, pid, rank, begin - origin_ns, end - begin, arguments)

    issued = request.negotiated_ns or request.done_ns
    yield phase(f"NEGOTIATE_{kind}", request.submitted_ns, issued, batch=request.batch)
    for other, moment in sorted((ready or {}).items()):
        at = min(max(moment, request.submitted_ns), issued)
        yield phase(str(other), at, at)
    if not request.negotiated_ns:
        return  # it failed before it was carried out
    yield phase(kind, issued, request.done_ns, bytes=request.bytes, batch=request.batch)
    reduced = request.reduced_ns or request.done_ns
    moment = min(max(issued, turn_ns), request.packed_ns or reduced)
    if moment > issued:
        yield phase("QUEUE", issued, moment)
    if request.packed_ns:
        yield phase("MEMCPY_IN_FUSION_BUFFER", moment, request.packed_ns)
        moment = request.packed_ns
    yield phase(f"PACELINE_{kind}", moment, reduced)
    if request.packed_ns and request.reduced_ns:
        yield phase("MEMCPY_OUT_FUSION_BUFFER", reduced, request.done_ns)
