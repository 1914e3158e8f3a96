"""One named request of one rank, as its coordinator remembers it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class Record(Protocol):
    """What is read of `Coordinator.records()`. Times are CLOCK_MONOTONIC in ns, 0 where a phase did not happen."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def submitted_ns(self) -> int: ...
    @property
    def negotiated_ns(self) -> int: ...
    @property
    def packed_ns(self) -> int: ...
    @property
    def reduced_ns(self) -> int: ...
    @property
    def done_ns(self) -> int: ...
    @property
    def last(self) -> bool | None: ...
    @property
    def number(self) -> int: ...


class Request(NamedTuple):
    """A finished request. Times are CLOCK_REALTIME in ns, 0 where a phase did not happen.

    channel: the coordinator's group, equal on its ranks; so is batch, the number of the batch that it went out with.
    kind: "all_reduce", … last: 1 if this rank was the last to hand it in, 0 if not, -1 if it can't tell.
    """

    channel: int
    name: str
    kind: str
    bytes: int
    batch: int
    submitted_ns: int
    negotiated_ns: int
    packed_ns: int
    reduced_ns: int
    done_ns: int
    last: int

    @property
    def key(self) -> tuple[int, int, str]:
        """The same on all ranks of the group, and of no other request."""
        return self.channel, self.batch, self.name

    def moved(self, shift_ns: int) -> Request:
        """With this added to all times; phases that did not happen stay 0."""
        times = (moment + shift_ns if moment else 0 for moment in self[5:10])
        return Request._make((*self[:5], *times, self.last))


def wall_ns() -> int:
    """What to add to CLOCK_MONOTONIC for CLOCK_REALTIME, to a fraction of a microsecond."""
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(5)]
    before, wall, after = min(looks, key=lambda look: look[2] - look[0])
    return wall - (before + after) // 2


def of_records(channel: int, records: Iterable[Record], shift_ns: int) -> list[Request]:
    """A coordinator's records, with `shift_ns` added to the times of what did happen."""
    return [
        Request(
            channel,
            r.name,
            r.kind,
            r.nbytes,
            r.batch,
            r.submitted_ns + shift_ns,
            r.negotiated_ns and r.negotiated_ns + shift_ns,
            r.packed_ns and r.packed_ns + shift_ns,
            r.reduced_ns and r.reduced_ns + shift_ns,
            r.done_ns + shift_ns,
            -1 if r.last is None else int(r.last),
        )
        for r in records
    ]


def requests(rows: Iterable[Sequence[object]]) -> tuple[Request, ...]:
    """Rows as requests. Raises ValueError for a row that isn't one."""
    return tuple(_request(row) for row in rows)


_TEXT = ("name", "kind")


def _request(row: Sequence[object]) -> Request:
    if len(row) != len(Request._fields):
        raise ValueError(f"a request has {len(Request._fields)} fields, not {len(row)}")
    for name, value in zip(Request._fields, row, strict=True):
        kind = str if name in _TEXT else int
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"the request's {name} should be {kind.__name__}, not {value!r:.60}")
    return Request(*row)  # type: ignore[arg-type]
