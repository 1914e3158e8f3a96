"""What an observer tells those that follow it."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.trace.event import Event
from paceline.trace.request import Request


@dataclass(frozen=True)
class News:
    """What ended since the last look: operations by their ids, requests as they ended."""

    events: tuple[Event, ...] = ()
    requests: tuple[Request, ...] = ()
