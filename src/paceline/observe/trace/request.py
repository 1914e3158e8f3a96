"""One named request of one rank, as its coordinator records it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol


class Record(Protocol):
    """The fields of `Coordinator.records()` that are read here.

    Times are CLOCK_MONOTONIC in ns, 0 for phases that did not happen.
    """

    @property
    def name(self) -> str:
        """The request's name."""

    @property
    def kind(self) -> str:
        """The collective, such as "all_reduce"."""

    @property
    def nbytes(self) -> int:
        """The size of the request's buffer in bytes."""

    @property
    def batch(self) -> int:
        """The number of the batch that the request was part of."""

    @property
    def submitted_ns(self) -> int:
        """The time at which this rank submitted the request."""

    @property
    def negotiated_ns(self) -> int:
        """The time at which the ranks had agreed to carry it out."""

    @property
    def packed_ns(self) -> int:
        """The time at which it was copied into the fusion buffer."""

    @property
    def reduced_ns(self) -> int:
        """The time at which the collective itself was done."""

    @property
    def done_ns(self) -> int:
        """The time at which the request was done."""

    @property
    def last(self) -> bool | None:
        """True if this rank was the last to submit it; None if that is unknown."""

    @property
    def number(self) -> int:
        """The number of the request among those of its coordinator."""


class Request(NamedTuple):
    """A finished request. Times are CLOCK_REALTIME in ns, 0 for phases that did not happen.

    channel: the coordinator's group, the same on all its ranks. kind: the collective, such as "all_reduce". batch: the
    number of the batch that the request was part of, the same on all ranks. last: 1 if this rank was the last to submit
    it, 0 if not, -1 if that is unknown.
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
        """Identifies the request; the same on all ranks of the group."""
        return self.channel, self.batch, self.name

    def moved(self, shift_ns: int) -> Request:
        """Return the request with `shift_ns` added to all times; phases that did not happen stay 0."""
        times = (moment + shift_ns if moment else 0 for moment in self[5:10])
        return Request._make((*self[:5], *times, self.last))


def wall_ns() -> int:
    """Return the difference between CLOCK_REALTIME and CLOCK_MONOTONIC in ns, exact to a fraction of a microsecond."""
    looks = [(time.monotonic_ns(), time.time_ns(), time.monotonic_ns()) for _ in range(5)]
    before, wall, after = min(looks, key=lambda look: look[2] - look[0])
    return wall - (before + after) // 2


def of_records(channel: int, records: Iterable[Record], shift_ns: int) -> list[Request]:
    """Convert a coordinator's records, adding `shift_ns` to the times of phases that happened."""
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
    """Convert rows to requests. Raises ValueError for an invalid row."""
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
