"""Writes Chrome's trace format, which Perfetto and chrome://tracing open: a process per rank, two rows per group."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from paceline.formats.files import write_file
from paceline.observe.trace.aligned import aligned, clocks_of
from paceline.observe.trace.clocks import Clock
from paceline.observe.trace.dump import Dump
from paceline.observe.trace.event import Event
from paceline.observe.trace.groups import groups_of
from paceline.observe.trace.phases import Tensors, Turns, slices
from paceline.observe.trace.record import interval, metadata

# The time between a call and its first step has a row of its own, because operations may queue side by side.
_ROWS_PER_GROUP = 2
_COLOURS = {"failed": "terrible", "running": "bad"}


def write(dumps: Sequence[Dump], path: Path) -> int:
    """Write the merged trace and return the number of operations.

    Times in the file are µs since the first operation, on the clock of the first dump's host. Raises OSError if the
    file cannot be written.
    """
    _write(path, {"otherData": _notes(dumps)}, records(aligned(dumps)))
    return sum(len(dump.events) for dump in dumps)


def write_each(dumps: Sequence[Dump], folder: Path) -> list[Path]:
    """Write a trace for each rank, as Holistic Trace Analysis (HTA) and torch's profiler have them; return the files.

    `distributedInfo` says which rank each is of. Times are those of `write`. Raises OSError if the folder or a file
    cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    moved = aligned(dumps)
    found = []
    for dump in moved:
        path = folder / f"rank-{dump.rank:05d}.json"
        head = {"distributedInfo": _distributed(dump), "otherData": _notes(dumps)}
        _write(path, head, records(moved, [dump]))
        found.append(path)
    return found


def _write(path: Path, head: dict[str, Any], events: Iterable[dict[str, Any]]) -> None:
    begin = json.dumps({"displayTimeUnit": "ns", **head})  # HTA looks for the rank as text, with a space before it
    write_file(path, f'{begin[:-1]}, "traceEvents": {json.dumps(list(events), separators=(",", ":"))}}}')


def _distributed(dump: Dump) -> dict[str, Any]:
    """The rank and the groups of a dump, under the names of torch's profiler."""
    groups = [
        {"pg_name": f"{channel:x}", "pg_desc": group.name, "pg_size": len(group.ranks), "ranks": list(group.ranks)}
        for channel, group in dump.groups.items()
    ]
    return {
        "backend": "paceline",
        "rank": dump.rank,
        "world_size": dump.size,
        "pg_count": len(groups),
        "pg_config": groups,
    }


def _notes(dumps: Sequence[Dump]) -> dict[str, str]:
    return {**{f"rank {dump.rank}": dump.reason for dump in dumps if dump.reason}, **_clocks(dumps)}


def records(dumps: Sequence[Dump], of: Sequence[Dump] | None = None) -> Iterable[dict[str, Any]]:
    """Yield the records of the trace, metadata first. The dumps' times must be on one clock; see `aligned`.

    of: those of them whose records are wanted; None stands for all.
    """
    wanted = dumps if of is None else of
    begins = [event.enqueue_ns for dump in dumps for event in dump.events]
    origin = min(begins + [request.submitted_ns for dump in dumps for request in dump.requests], default=0)
    groups = groups_of(dumps)
    row_of = {channel: 1 + number * _ROWS_PER_GROUP for number, channel in enumerate(groups)}
    for dump in wanted:
        used = {event.channel for event in dump.events}
        yield metadata("process_name", dump.rank, 0, name=f"rank {dump.rank} ({dump.host} pid {dump.pid})")
        yield metadata("process_sort_index", dump.rank, 0, sort_index=dump.rank)
        for channel in (channel for channel in groups if channel in used):
            yield metadata("thread_name", dump.rank, row_of[channel], name=groups[channel].name)
            yield metadata("thread_name", dump.rank, row_of[channel] + 1, name=f"{groups[channel].name}: queue")
    for dump in wanted:
        last = max((max(e.enqueue_ns, e.start_ns, e.end_ns) for e in dump.events), default=0)
        until = max(dump.written_ns, last)
        for event in dump.events:
            yield from operation(event, dump.rank, row_of[event.channel], origin, until)
    yield from _tensors(dumps, wanted, origin)


def _tensors(dumps: Sequence[Dump], wanted: Sequence[Dump], origin: int) -> Iterable[dict[str, Any]]:
    """Yield the records of named requests. The first row of a tensor also shows when other ranks submitted it."""
    ready: dict[tuple[int, int, str], dict[int, int]] = {}
    for dump in dumps:
        for request in dump.requests:
            ready.setdefault(request.key, {})[dump.rank] = request.submitted_ns
    tensors = Tensors()
    for dump in wanted:
        turns = Turns()
        for request in dump.requests:
            pid, new = tensors.row(request.name, dump.rank)
            yield from new
            yield from slices(request, pid, dump.rank, origin, turns.of(request), ready.pop(request.key, None))


def _clocks(dumps: Sequence[Dump]) -> dict[str, str]:
    """Describe how the clocks of other machines were corrected."""
    hosts = {dump.clocks.machine: dump.host for dump in reversed(dumps)}
    return {f"clock of {hosts[machine]}": _said(clock) for machine, clock in list(clocks_of(dumps).items())[1:]}


def _said(clock: Clock) -> str:
    if clock.error_ns == math.inf:
        return "taken as it is: there is nothing to compare it by"
    within = f"within {clock.error_ns / 1e6:.3f} ms"
    if not clock.ahead_ns:
        return f"taken as it is, which is right {within}"
    return f"taken to be {clock.ahead_ns / 1e6:.3f} ms ahead, {within}"


def operation(event: Event, rank: int, row: int, origin: int, until: int) -> Iterable[dict[str, Any]]:
    """Yield the slices of one operation: its run in row `row` of the rank, its time in the queue one row below.

    origin: the time in ns that becomes 0. until: the time in ns at which an operation that is still running ends in the
    picture.
    """
    started = event.start_ns or (event.end_ns or until)
    ended = event.end_ns or until
    if started > event.enqueue_ns:
        yield interval("queue", rank, row + 1, event.enqueue_ns - origin, started - event.enqueue_ns, {"id": event.id})
    if not event.start_ns and event.state == "running":
        return
    arguments = {
        "id": event.id,
        "sequence": event.sequence,
        "bytes": event.bytes,
        "dtype": event.dtype,
        "op": event.op,
        "algorithm": event.algorithm,
        "link": event.link,
        "state": event.state,
    }
    record = interval(event.collective, rank, row, started - origin, ended - started, arguments)
    if event.state in _COLOURS:
        record["cname"] = _COLOURS[event.state]
    yield record
