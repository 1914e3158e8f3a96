"""The records that Chrome's trace format is made of. Times are µs since a common origin."""

from __future__ import annotations

from typing import Any


def metadata(kind: str, process: int, row: int, **arguments: object) -> dict[str, Any]:
    """About a process or a row of it: "process_name", "thread_name", "process_sort_index"."""
    return {"name": kind, "ph": "M", "pid": process, "tid": row, "args": arguments}


def interval(
    name: str, process: int, row: int, begin_ns: int, length_ns: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Something that took time, in nanoseconds; what would be negative is 0."""
    record: dict[str, Any] = {
        "name": name,
        "cat": "communication",
        "ph": "X",
        "pid": process,
        "tid": row,
        "ts": begin_ns / 1000,
        "dur": max(0, length_ns) / 1000,
    }
    if arguments:
        record["args"] = arguments
    return record
