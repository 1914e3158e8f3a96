"""The timeline: what happened to each named tensor, as a Chrome trace in the form of Horovod's.

One row for each tensor, with Horovod's words for the phases: NEGOTIATE_ALLREDUCE until the tensor's turn came, then
ALLREDUCE, and in it the copies to and from the memory where tensors are combined together.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.coordinate import Record


class Timeline:
    """Begins now; `stop` writes the requests that began since, as far as `records` still knows them, into the file."""

    def __init__(self, path: Path, records: Callable[[], Iterable[Record]]) -> None:
        self._path, self._records = path, records
        self._start = time.monotonic_ns()
        self._clock = time.time_ns() - self._start
        path.touch()  # a place that cannot be written to is found out now

    def stop(self) -> None:
        with self._path.open("w") as file:
            json.dump(list(self.events()), file)

    def events(self) -> Iterator[dict[str, Any]]:
        """The rows of the trace; times in microseconds since the timeline began."""
        micros = (self._start + self._clock) // 1000
        yield {"name": "start_time_since_epoch_in_micros", "ph": "M", "pid": 0, "args": {"value": micros}}
        rows: dict[str, int] = {}
        for record in self._records():
            if record.submitted_ns < self._start:
                continue
            if record.name not in rows:
                rows[record.name] = len(rows) + 1
                yield {"name": "process_name", "ph": "M", "pid": rows[record.name], "args": {"name": record.name}}
            for name, begin, end in _phases(record):
                yield {
                    "name": name,
                    "ph": "X",
                    "pid": rows[record.name],
                    "tid": 0,
                    "ts": (begin - self._start) / 1000,
                    "dur": (end - begin) / 1000,
                    "args": {"bytes": record.nbytes, "batch": record.batch},
                }


def _phases(record: Record) -> Iterator[tuple[str, int, int]]:
    """Name, begin and end of what did happen."""
    kind = record.kind.replace("_", "").upper()
    issued = record.negotiated_ns or record.done_ns
    yield f"NEGOTIATE_{kind}", record.submitted_ns, issued
    yield kind, issued, record.done_ns
    if record.packed_ns and record.reduced_ns:
        yield "MEMCPY_IN_FUSION_BUFFER", issued, record.packed_ns
        yield "REDUCE", record.packed_ns, record.reduced_ns
        yield "MEMCPY_OUT_FUSION_BUFFER", record.reduced_ns, record.done_ns
