"""Reads from Paceline's event ring how the last operation was carried out."""

from __future__ import annotations

from paceline.observe.trace.event import events
from paceline.process.current import runtime


def last_algorithm() -> str:
    """Return the algorithm of this process's newest finished operation, "default" if there is none."""
    done = [event for event in events(runtime().events()) if event.end_ns]
    if not done:
        return "default"
    last = max(done, key=lambda event: event.end_ns)
    return last.algorithm or "default"
