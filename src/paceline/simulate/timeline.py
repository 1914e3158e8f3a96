"""One simulated step as a Chrome trace, which Perfetto opens beside the trace of a real run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from paceline.formats.sizes import show_bytes
from paceline.observe.trace.record import interval, metadata
from paceline.simulate.job import Moments

_RANKS = 4096
"""Ranks that are shown at most."""


def trace(moments: Moments) -> str:
    """Return the trace as JSON: a process for every rank, and one for the network that all of them share."""
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": list(_records(moments))}, separators=(",", ":"))


def _records(moments: Moments) -> Iterator[dict[str, Any]]:
    over = max((batch.over for batch in moments.batches), default=0.0)
    for rank, ready in enumerate(moments.ready[:_RANKS]):
        yield metadata("process_name", rank, 0, name=f"rank {rank} (simulated)")
        yield metadata("process_sort_index", rank, 0, sort_index=rank)
        yield _span("computes", rank, 0, 0.0, ready)
        yield _span("waits for its gradients", rank, 0, ready, over)
    network = len(moments.ready)
    yield metadata("process_name", network, 0, name="network (simulated)")
    yield metadata("process_sort_index", network, 0, sort_index=network)
    yield metadata("thread_name", network, 0, name="all_reduce")
    yield metadata("thread_name", network, 1, name="all_reduce: queue")
    for number, batch in enumerate(moments.batches):
        what = {"batch": number, "bytes": batch.nbytes, "requests": batch.requests}
        yield _span(f"all_reduce {show_bytes(batch.nbytes)}", network, 0, batch.begun, batch.over, what)
        if batch.begun > batch.issued:
            yield _span(f"batch {number} waits", network, 1, batch.issued, batch.begun, what)


def _span(
    name: str, process: int, row: int, begin: float, end: float, arguments: dict[str, Any] | None = None
) -> dict[str, Any]:
    return interval(name, process, row, round(begin * 1e9), round((end - begin) * 1e9), arguments or {})
