"""Chrome's trace format, which Perfetto and chrome://tracing open: a process per rank, a row per group."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from paceline.trace.dump import Dump
from paceline.trace.event import Event
from paceline.trace.groups import groups_of

# The time between the call and the first step is drawn on a row of its own, since operations may queue side by side.
_ROWS_PER_GROUP = 2
_COLOURS = {"failed": "terrible", "running": "bad"}


def write(dumps: Sequence[Dump], path: Path) -> int:
    """Write the merged trace; returns the number of operations. Times in the file are µs since the first operation."""
    content = {
        "displayTimeUnit": "ns",
        "traceEvents": list(records(dumps)),
        "otherData": {f"rank {dump.rank}": dump.reason for dump in dumps if dump.reason},
    }
    path.write_text(json.dumps(content, separators=(",", ":")))
    return sum(len(dump.events) for dump in dumps)


def records(dumps: Sequence[Dump]) -> Iterable[dict[str, Any]]:
    """The records of the trace, metadata first."""
    origin = min((event.enqueue_ns for dump in dumps for event in dump.events), default=0)
    groups = groups_of(dumps)
    row_of = {channel: 1 + number * _ROWS_PER_GROUP for number, channel in enumerate(groups)}
    for dump in dumps:
        used = {event.channel for event in dump.events}
        yield _metadata("process_name", dump.rank, 0, name=f"rank {dump.rank} ({dump.host} pid {dump.pid})")
        yield _metadata("process_sort_index", dump.rank, 0, sort_index=dump.rank)
        for channel in (channel for channel in groups if channel in used):
            yield _metadata("thread_name", dump.rank, row_of[channel], name=groups[channel].name)
            yield _metadata("thread_name", dump.rank, row_of[channel] + 1, name=f"{groups[channel].name}: queue")
    for dump in dumps:
        last = max((max(e.enqueue_ns, e.start_ns, e.end_ns) for e in dump.events), default=0)
        until = max(dump.written_ns, last)
        for event in dump.events:
            yield from _operation(event, dump.rank, row_of[event.channel], origin, until)


def _operation(event: Event, rank: int, row: int, origin: int, until: int) -> Iterable[dict[str, Any]]:
    started = event.start_ns or (event.end_ns or until)
    ended = event.end_ns or until
    if started > event.enqueue_ns:
        yield _slice("queue", rank, row + 1, event.enqueue_ns - origin, started - event.enqueue_ns, {"id": event.id})
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
    record = _slice(event.collective, rank, row, started - origin, ended - started, arguments)
    if event.state in _COLOURS:
        record["cname"] = _COLOURS[event.state]
    yield record


def _slice(name: str, rank: int, row: int, begin_ns: int, length_ns: int, arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "cat": "communication",
        "ph": "X",
        "pid": rank,
        "tid": row,
        "ts": begin_ns / 1000,
        "dur": max(0, length_ns) / 1000,
        "args": arguments,
    }


def _metadata(kind: str, rank: int, row: int, **arguments: object) -> dict[str, Any]:
    return {"name": kind, "ph": "M", "pid": rank, "tid": row, "args": arguments}
