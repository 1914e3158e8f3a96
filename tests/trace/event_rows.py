"""Event rows and dumps for these tests."""

from collections.abc import Sequence
from typing import Any

from paceline.observe.trace.dump import Dump, Group
from paceline.observe.trace.event import events


def row(
    number: int,
    channel: int,
    sequence: int,
    collective: str = "all_reduce",
    *,
    size: int = 4096,
    dtype: str = "float32",
    enqueue_ns: int | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    state: str = "done",
) -> tuple[Any, ...]:
    """A row as `Engine.events()` gives it; by default 10 µs after the one before."""
    enqueued = 10_000 * number if enqueue_ns is None else enqueue_ns
    started = enqueued + 1000 if start_ns is None else start_ns
    ended = started + 5000 if end_ns is None else end_ns
    timing = (enqueued, started, ended, state)
    return (number, channel, sequence, collective, dtype, "SUM", size, "ring", "shm", *timing)


def dumps_of(
    *ranks: Sequence[tuple[Any, ...]], groups: dict[int, Group] | None = None, written_ns: int = 0
) -> list[Dump]:
    """One dump per argument, as rank 0, 1, …"""
    return [
        Dump(
            rank,
            "host",
            100 + rank,
            events(rows),
            size=len(ranks),
            groups=groups or {},
            written_ns=written_ns,
        )
        for rank, rows in enumerate(ranks)
    ]
