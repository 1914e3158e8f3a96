"""The times at which the named requests of Paceline's face of Horovod's API were agreed on, copied and reduced."""

from __future__ import annotations

import importlib
from typing import Any

from paceline.observe.trace.request import of_records, wall_ns


def named_requests() -> list[tuple[float, float, float, float]]:
    """Return it for the last requests of all ranks' process set, as `Steps.requests` does.

    What was not copied was packed as soon as it was agreed on, and unpacked as soon as it was reduced.
    """
    job: Any = importlib.import_module("paceline.horovod.job")
    records = job.current().channel(job.GLOBAL).coordinator.records()
    return [
        (
            request.negotiated_ns / 1e9,
            (request.packed_ns or request.negotiated_ns) / 1e9,
            (request.reduced_ns or request.done_ns) / 1e9,
            request.done_ns / 1e9,
        )
        for request in of_records(0, records, wall_ns())
        if request.negotiated_ns
    ]
