"""An engine and a coordinator that did what a test says, with rings as short as it likes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class FakeRecord(NamedTuple):
    """The fields of `paceline.coordinate.Record`."""

    name: str
    kind: str = "all_reduce"
    nbytes: int = 4096
    batch: int = 0
    submitted_ns: int = 0
    negotiated_ns: int = 0
    packed_ns: int = 0
    reduced_ns: int = 0
    done_ns: int = 0
    last: bool | None = False
    number: int = 0


@dataclass
class FakeCounters:
    """Some of the fields of `paceline.coordinate.Counters`."""

    issued: int = 0
    issues: int = 0
    cache_hits: int = 0
    cache_misses: int = 0
    fused_bytes: int = 0
    background_cpu_ns: int = 0
    spin_ns: int = 0
    oversleep_ns: int = 0
    negotiation_ns: int = 0
    longest_negotiation_ns: int = 0
    negotiations: int = 0


@dataclass
class FakeCoordinator:
    """Its ring holds the last `capacity` records."""

    capacity: int = 8192
    ended: list[FakeRecord] = field(default_factory=list)
    counted: FakeCounters = field(default_factory=FakeCounters)
    policy: str = "board"

    def add(self, *records: FakeRecord) -> None:
        self.ended += [record._replace(number=len(self.ended) + n) for n, record in enumerate(records, 1)]
        self.counted.issued += len(records)

    def records(self, after: int = 0) -> list[FakeRecord]:
        return [record for record in self.ended[-self.capacity :] if record.number > after]

    def counters(self) -> FakeCounters:
        return self.counted


@dataclass
class FakeEngine:
    """Its ring holds the last `capacity` operations, rows as `Engine.events()` gives them."""

    capacity: int = 4096
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    exposed: int = 0
    waiting: list[Any] = field(default_factory=list)

    def events(self, after: int = 0) -> list[tuple[Any, ...]]:
        return [row for row in self.rows[-self.capacity :] if row[0] > after]

    def exposed_ns(self) -> int:
        return self.exposed

    def waits(self) -> list[Any]:
        return self.waiting

    def annotate(self, operation: int, words: str) -> None:
        raise AssertionError("nobody watches here")

    def tell_line(self, line: str) -> None:
        raise AssertionError("nobody watches here")


def operation(
    number: int,
    *,
    channel: int = 5,
    collective: str = "all_reduce",
    size: int = 4096,
    begin_ns: int | None = None,
    state: str = "done",
) -> tuple[Any, ...]:
    """A row; by default it begins 10 µs after the one before and takes 5 µs."""
    begin = 10_000 * number if begin_ns is None else begin_ns
    end = begin + 5000 if state == "done" else 0
    return (number, channel, number, collective, "float32", "SUM", size, "ring", "shm", begin, begin, end, state)
