"""The news that an observer tells its listeners."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.observe.trace.event import Event
from paceline.observe.trace.request import Request


@dataclass(frozen=True)
class News:
    """Everything that ended since the last look: operations, ordered by their ids, and requests, as they ended."""

    events: tuple[Event, ...] = ()
    requests: tuple[Request, ...] = ()
