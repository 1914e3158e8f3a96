"""One operation of one rank, as the engine's event ring remembers it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

DTYPE_BYTES = {
    "float16": 2, "bfloat16": 2, "float32": 4, "float64": 8, "int8": 1, "uint8": 1, "int32": 4, "int64": 8, "bool": 1,
}  # fmt: skip


class Event(NamedTuple):
    """The fields of `Engine.events()`, in its order. Times are CLOCK_REALTIME in ns, start_ns and end_ns 0 until then.

    channel: the group's number, equal on its ranks. sequence: counts the collectives of a group, equal on its ranks.
    bytes: of the whole buffer: of all ranks' parts for all_gather and reduce_scatter.
    state: "running", "done" or "failed". link: "shm", "tcp" or "mixed".
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
        """Elements in `bytes`."""
        return self.bytes // DTYPE_BYTES.get(self.dtype, 1)

    @property
    def point_to_point(self) -> bool:
        """True for sends and receives, which have no place in the group's sequence."""
        return self.collective in ("send", "recv")


def events(rows: Iterable[Sequence[object]]) -> tuple[Event, ...]:
    """Rows as events. Raises ValueError for a row that isn't one."""
    return tuple(_event(row) for row in rows)


def _event(row: Sequence[object]) -> Event:
    kinds = Event.__annotations__
    if len(row) != len(kinds):
        raise ValueError(f"an event has {len(kinds)} fields, not {len(row)}")
    for (name, kind), value in zip(kinds.items(), row, strict=True):
        if not isinstance(value, kind) or isinstance(value, bool):
            raise ValueError(f"the event's {name} should be {kind.__name__}, not {value!r:.60}")
    return Event(*row)  # type: ignore[arg-type]
