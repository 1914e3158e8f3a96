"""The times at which a rank submitted its requests, for the rank that writes the timeline."""

from __future__ import annotations

import json
from collections import deque
from typing import NamedTuple

from paceline.observe.news import News
from paceline.observe.observer import Observer

_KEPT = 8192
"""Requests that are remembered."""
MAX_BYTES = 8 * 2**20
"""Bytes of the longest answer that is read."""


class Submission(NamedTuple):
    """A request that is over: its group's channel, batch and name, and when it was submitted (CLOCK_REALTIME in ns)."""

    channel: int
    batch: int
    name: str
    submitted_ns: int


class Submissions:
    """Remembers the last 8192 requests that ended, from now on."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._kept: deque[tuple[int, Submission]] = deque(maxlen=_KEPT)
        observer.follow(self._note)

    def since(self, moment_ns: int) -> bytes:
        """Return as JSON, for `decode`, the requests that ended after `moment_ns` (CLOCK_REALTIME in ns)."""
        self._observer.look()
        return json.dumps([one for done, one in list(self._kept) if done > moment_ns]).encode()

    def _note(self, news: News) -> None:
        self._kept.extend((r.done_ns, Submission(r.channel, r.batch, r.name, r.submitted_ns)) for r in news.requests)


def decode(data: bytes) -> list[Submission]:
    """Return the submissions that `Submissions.since` wrote. Raises ValueError if the data are something else."""
    try:
        return [Submission(int(c), int(b), str(n), int(s)) for c, b, n, s in json.loads(data)]
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"not a list of submissions: {error}") from None
