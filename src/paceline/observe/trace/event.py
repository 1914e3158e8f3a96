"""One operation of one rank, as the engine's event ring records it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

DTYPE_BYTES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1, "int32": 4, "int64": 8, "bool": 1,
    "complex32": 4, "complex64": 8, "complex128": 16, "int16": 2, "uint16": 2, "uint32": 4, "uint64": 8, "qint32": 4,
}  # fmt: skip
"""The size in bytes of one element of each dtype that has more than one, or that the engine combines."""


Row = Sequence[object]
"""One row of `Engine.events()`: the fields of an `Event`, in its order."""


class Event(NamedTuple):
    """The fields of `Engine.events()`, in its order. Times are CLOCK_REALTIME in ns; start_ns and end_ns are 0 until
    they happen.

    channel: the group's number, the same on all its ranks. sequence: counts the collectives of a group, the same on all
    its ranks. bytes: the size of the whole buffer; for all_gather and reduce_scatter that is all ranks' parts together.
    link: "shm", "tcp" or "mixed". state: "running", "done" or "failed".
    """

    id: int
    channel: int
    sequence: int
    collective: str
    dtype: str
    op: str
    bytes: int
    algorithm: str
    link: str
    enqueue_ns: int
    start_ns: int
    end_ns: int
    state: str

    @property
    def elements(self) -> int:
        """The number of elements in `bytes`."""
        return self.bytes // DTYPE_BYTES.get(self.dtype, 1)

    @property
    def point_to_point(self) -> bool:
        """True if this is a send or a receive, which has no place in the group's sequence."""
        return self.collective in ("send", "recv")


def events(rows: Iterable[Row]) -> tuple[Event, ...]:
    """Convert rows to events. Raises ValueError for an invalid row."""
    return tuple(_event(row) for row in rows)


def _event(row: Row) -> Event:
    kinds = Event.__annotations__
    if len(row) != len(kinds):
        raise ValueError(f"an event has {len(kinds)} fields, not {len(row)}")
    for (name, kind), value in zip(kinds.items(), row, strict=True):
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"the event's {name} should be {kind.__name__}, not {value!r:.60}")
    return Event(*row)  # type: ignore[arg-type]
