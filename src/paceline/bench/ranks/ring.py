"""Paceline's event ring, asked how the last operation was done."""

from __future__ import annotations

from paceline.runtime.process import runtime
from paceline.trace.event import events


def last_algorithm() -> str:
    """The algorithm of this process's newest finished operation; "default" if none."""
    done = [event for event in events(runtime().events()) if event.end_ns]
    if not done:
        return "default"
    last = max(done, key=lambda event: event.end_ns)
    return last.algorithm or "default"
