"""The records of Chrome's trace format. Times in them are µs since a common origin."""

from __future__ import annotations

from typing import Any


def metadata(kind: str, process: int, row: int, **arguments: object) -> dict[str, Any]:
    """Return a record about a process or one of its rows: "process_name", "thread_name" or "process_sort_index"."""
    return {"name": kind, "ph": "M", "pid": process, "tid": row, "args": arguments}


def interval(
    name: str, process: int, row: int, begin_ns: int, length_ns: int, arguments: dict[str, Any]
) -> dict[str, Any]:
    """Return a record of something that took time. Times are in ns since the origin; a negative length becomes 0."""
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
