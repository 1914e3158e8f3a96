"""Records a rank's profile for the report.

The calls are those that the observer takes out of the engine's rings anyway. The machine is tried for some
milliseconds when a report is first asked for, and again at the end.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

from paceline.cpu.budget import available
from paceline.observe.annotations import Annotations
from paceline.observe.news import News
from paceline.observe.observer import Observer, Source
from paceline.observe.profile import Exchange, NamedExchange, Profile
from paceline.observe.trace.event import Event
from paceline.observe.trace.request import Request, wall_ns

_ROWS = 1 << 18
"""Rows of all ranks together that a report holds at most of each kind; one takes some 80 bytes of JSON."""
_LEAST, _MOST = 256, 4096
"""Rows of one rank."""
_COPIED = 8 << 20
"""Bytes that are copied to find how fast memory is; they do not fit a core's own caches."""
_COPIES = 5
_SLEEPS, _SLEEP = 20, 200e-6
"""The number of sleeps, and the seconds of each, that show how late a rank wakes up."""


class CallRecorder:
    """Remembers what an observer sees of this rank.

    annotations: what the process tells of itself. coordinators: returns those that are open, by channel.
    ranks: how many there are in the job; the more there are, the less is kept of each. codec: see `Profile`.
    """

    def __init__(
        self,
        observer: Observer,
        annotations: Annotations,
        coordinators: Callable[[], Mapping[int, Source]],
        ranks: int,
        codec: str,
    ) -> None:
        self._annotations, self._coordinators, self._codec = annotations, coordinators, codec
        kept = max(_LEAST, min(_MOST, _ROWS // ranks))
        self._events: deque[Event] = deque(maxlen=kept)
        self._requests: deque[Request] = deque(maxlen=kept)
        self._options: tuple[int, float, str] = (0, 0.0, "")
        self._machine: tuple[float, tuple[int, ...]] | None = None  # how fast it copies, by how much sleeps are late
        observer.follow(self._note)

    def profile(self, at_end: bool) -> Profile:
        """Return what was seen so far. At first and at the end it tries the machine, which takes some 20 ms."""
        fusion_bytes, cycle_seconds, waits = self._options
        if self._machine is None or at_end:
            self._machine = _copy_rate(), _lateness()
        copy_rate, late_ns = self._machine
        shift = wall_ns()
        return Profile(
            exchanges=tuple(
                Exchange(e.channel, e.sequence, e.collective, e.bytes, e.enqueue_ns, e.end_ns)
                for e in tuple(self._events)  # another thread may add to them
                if e.state == "done" and not e.point_to_point
            ),
            requests=tuple(
                NamedExchange(r.channel, r.batch, r.name, r.kind, r.bytes, r.submitted_ns, r.negotiated_ns, r.done_ns)
                for r in tuple(self._requests)
            ),
            steps_ns=tuple(begin + shift for begin in self._annotations.steps.begins_ns()),
            fusion_bytes=fusion_bytes,
            cycle_seconds=cycle_seconds,
            waits=waits,
            codec=self._codec,
            cpus=available().cpus,
            copy_rate=copy_rate,
            late_ns=late_ns,
        )

    def _note(self, news: News) -> None:
        internal = self._annotations.internal
        self._events.extend(e for e in news.events if e not in internal)
        self._requests.extend(news.requests)
        for coordinator in self._coordinators().values():
            options = coordinator.options
            self._options = options.fusion_bytes, options.cycle_seconds, options.wait


def _copy_rate() -> float:
    source, target = np.ones(_COPIED, np.uint8), np.ones(_COPIED, np.uint8)
    seconds = []
    for _ in range(_COPIES):
        begin = time.perf_counter()
        target[:] = source
        seconds.append(time.perf_counter() - begin)
    return _COPIED / median(seconds)


def _lateness() -> tuple[int, ...]:
    found = []
    for _ in range(_SLEEPS):
        begin = time.perf_counter_ns()
        time.sleep(_SLEEP)
        found.append(max(0, time.perf_counter_ns() - begin - round(_SLEEP * 1e9)))
    return tuple(found)
