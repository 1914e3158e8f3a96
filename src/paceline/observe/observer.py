"""Follows what a rank does by looking at the engine's rings now and then; it costs nothing between two looks."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Protocol

from paceline.host_name import host_name
from paceline.observe.annotations import Annotations
from paceline.observe.figures import Figures, Group, Waiting
from paceline.observe.news import News
from paceline.observe.steps import NamedSteps, NamelessSteps
from paceline.observe.trace.clocks import MEETINGS, Clocks, Meeting, is_meeting, meeting
from paceline.observe.trace.event import Event, Row
from paceline.observe.trace.request import Record, Request, of_records, wall_ns
from paceline.observe.waits import Wait

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_ARRIVALS = 512
"""Calls whose times are kept, to compare them with those of other ranks."""


class Options(Protocol):
    """The options of a coordinator, as `paceline.coordinate.Options`."""

    @property
    def fusion_bytes(self) -> int:
        """The most bytes that are combined together."""
        ...

    @property
    def cycle_seconds(self) -> float:
        """The seconds of a cycle."""
        ...

    @property
    def wait(self) -> str:
        """The wait mode of a polling policy: "spin" or "yield"."""
        ...


class Source(Protocol):
    """The part of a coordinator that an observer uses."""

    @property
    def options(self) -> Options:
        """Its options."""
        ...

    @property
    def policy(self) -> str:
        """The policy by which the ranks agree now."""
        ...

    def records(self, after: int = 0, /) -> Sequence[Record]:
        """The last requests with numbers above `after` that ended, in the order in which they ended."""
        ...

    def counters(self) -> DataclassInstance:
        """A dataclass of counters since the coordinator was made."""
        ...


class Engine(Protocol):
    """The part of the engine that an observer and the warnings about stalls use."""

    def events(self, after: int = 0, /) -> Sequence[Row]:
        """The last operations with ids above `after`, oldest first; see `paceline.observe.trace.event`."""
        ...

    def exposed_ns(self) -> int:
        """The nanoseconds that callers have waited in the engine so far."""
        ...

    def waits(self) -> Sequence[Wait]:
        """The operations that are not over; see `paceline.observe.waits`."""
        ...

    def annotate(self, operation: int, words: str, /) -> None:
        """Add `words` to the error that this operation will raise if it reaches its timeout."""
        ...

    def tell_line(self, line: str, /) -> None:
        """Tell the ranks that wait for this one the source line of its main thread."""
        ...


class Observer:
    """Follows the operations of one process. Thread-safe.

    coordinators: returns the coordinators of this process, by channel. groups: returns the name and the number of ranks
    of each of its groups, by channel. annotations: what the process tells beside what the engine counts. rank, size:
    this rank in its job. elsewhere: how many ranks of the job are on other machines. clocks: returns what this rank
    knows of clocks. capacity: the number of events that the engine's ring holds.
    """

    def __init__(
        self,
        engine: Engine,
        coordinators: Callable[[], Mapping[int, Source]],
        groups: Callable[[], Mapping[int, tuple[str, int]]],
        annotations: Annotations,
        rank: int,
        size: int,
        *,
        elsewhere: int = 0,
        clocks: Callable[[], Clocks] = Clocks,
        capacity: int = 4096,
    ) -> None:
        self._engine, self._coordinators, self._groups = engine, coordinators, groups
        self._annotations, self._clocks = annotations, clocks
        self._rank, self._size, self._elsewhere, self._capacity = rank, size, elsewhere, capacity
        self._lock = threading.Lock()
        self._listeners: list[Callable[[News], None]] = []
        self._settled = 0  # ids up to here were seen, or had gone by
        self._seen: set[int] = set()  # ids above
        self._running = self._ended = 0
        self._ends: dict[int, int] = {}  # the number of the last record seen, by channel
        self._steps = NamedSteps()
        self._nameless = NamelessSteps()
        self._arrivals: deque[Meeting] = deque(maxlen=_ARRIVALS)
        self._named_arrivals: deque[Meeting] = deque(maxlen=_ARRIVALS)
        self._since = self._idle_at = 0
        self._exposed_before = self._known_before = 0
        self._moved: dict[int, tuple[int, int]] = {}  # operations and bytes, by channel
        self._bytes = self._unseen = self._requests = self._passed = 0
        self._policies: dict[int, str] = {}
        self._counters: dict[int, dict[str, int]] = {}  # the last of each coordinator, also of those that are gone

    def follow(self, listener: Callable[[News], None]) -> None:
        """Call `listener` with the news of every look from now on. It must not call `look` itself."""
        with self._lock:
            self._listeners.append(listener)

    def unfollow(self, listener: Callable[[News], None]) -> None:
        """Call this listener no more."""
        with self._lock:
            self._listeners.remove(listener)

    def look(self) -> float:
        """Take in what is new. Returns the share of the rings that was new, 0 to 1; at 1, some may have gone by."""
        with self._lock:
            coordinators = self._coordinators()
            events, own, gone = self._new_events()
            requests = [
                request for channel, one in coordinators.items() for request in self._new_requests(channel, one)
            ]
            for event in events:
                if event.id not in own:
                    self._take_event(event, named=event.channel in coordinators)
            for request in requests:
                self._take_request(request)
            if not self._annotations.steps.count and not self._steps.count:
                self._nameless.settle(gone)
            news = News(tuple(events), tuple(requests))
            for listener in self._listeners:
                listener(news)
            return 1.0 if gone else max(len(events) / self._capacity, len(requests) / 8192)

    def figures(self) -> Figures:
        """The figures of all looks so far, after one more look."""
        self.look()
        with self._lock:
            steps, step_ns = self._counted()
            now = time.time_ns()
            return Figures(
                rank=self._rank,
                size=self._size,
                host=host_name(),
                pid=os.getpid(),
                since_ns=self._since or now,
                time_ns=now,
                operations=self._ended + self._unseen + self._running,
                unseen=self._unseen,
                bytes=self._bytes,
                exposed_ns=self._exposed_ns() - self._exposed_before,
                steps=steps,
                step_ns=step_ns,
                elsewhere=self._elsewhere,
                batches=self._annotations.batches.count,
                loading_ns=self._annotations.batches.loading_ns,
                batch_wait_ns=self._annotations.batches.waited_ns,
                requests=self._requests,
                passed=self._passed,
                coordinators=dict(self._counters),
                policies=dict(self._policies),
                waits=tuple(
                    Waiting(what, round(seconds, 6), tuple(who for who, *_ in missing))
                    for _, seconds, _, _, what, missing in self._engine.waits()
                ),
                arrivals=tuple(self._named_arrivals or self._arrivals),
                clocks=self._clocks(),
                groups={
                    channel: Group(name, size, *self._moved.get(channel, (0, 0)))
                    for channel, (name, size) in self._groups().items()
                },
            )

    def begins_ns(self) -> list[int]:
        """Return the start times of the last steps, oldest first, after one more look.

        Only differences mean something: optimizers' steps are told by another clock than those that the communication
        suggests, and an earlier one.
        """
        self.look()
        with self._lock:
            if self._annotations.steps.count:
                return self._annotations.steps.begins_ns()
            return self._steps.begins_ns() if self._steps.count else self._nameless.begins_ns()

    def _counted(self) -> tuple[float, int]:
        """The steps and their median time: those of optimizers if known, else by names, else by rows of calls."""
        if self._annotations.steps.count:
            return self._annotations.steps.count - self._known_before, self._annotations.steps.median_ns
        if self._steps.count:
            return self._steps.count, self._steps.median_ns
        return round(self._nameless.count, 3), self._nameless.median_ns

    def _exposed_ns(self) -> int:
        return self._engine.exposed_ns() + self._annotations.outside.total_ns()

    def _new_events(self) -> tuple[list[Event], set[int], int]:
        """The operations that ended since the last look, the ids of Paceline's own, and how many went by unseen.

        Requests have ids, too, so not every id belongs to an operation of the program. Among the ids that went by, the
        share of operations is taken to be the same as among those that were seen.
        """
        rows = [Event._make(row) for row in self._engine.events(self._settled)]
        if not rows:
            self._running, self._idle_at = 0, time.time_ns()
            return [], set(), 0
        own = {event.id for event in rows if event in self._annotations.internal}
        first, newest = rows[0].id, rows[-1].id
        if not self._since:
            self._since, gone = rows[0].enqueue_ns, 0
            if first != 1 and self._idle_at:  # somebody looked before the first one
                self._since, gone = self._idle_at, round((first - 1) * (len(rows) - len(own)) / (newest - first + 1))
            elif first != 1:
                self._exposed_before, self._known_before = self._exposed_ns(), self._annotations.steps.count
        elif newest - self._settled <= self._capacity:
            gone = 0
        else:
            passed = first - self._settled - 1 - sum(1 for number in self._seen if number < first)
            gone = round(passed * (len(rows) - len(own)) / (newest - first + 1))
        new = [event for event in rows if event.state != "running" and event.id not in self._seen]
        running = [event.id for event in rows if event.state == "running"]
        self._settled = min(running, default=newest + 1) - 1
        self._seen = {event.id for event in rows if event.state != "running" and event.id > self._settled}
        self._running = len(set(running) - own)
        self._ended += sum(event.id not in own for event in new)
        self._unseen += gone
        return new, own, gone

    def _take_event(self, event: Event, named: bool) -> None:
        self._bytes += event.bytes
        operations, size = self._moved.get(event.channel, (0, 0))
        self._moved[event.channel] = operations + 1, size + event.bytes
        if is_meeting(event) and not named:
            self._arrivals.append(meeting(event))
        if not named and not event.point_to_point:
            call = (event.channel, event.collective, event.dtype, event.op, event.bytes)
            self._nameless.add(call, event.bytes, event.enqueue_ns)

    def _new_requests(self, channel: int, source: Source) -> list[Request]:
        self._policies[channel] = source.policy
        counters = asdict(source.counters())
        self._counters[channel] = {name: value for name, value in counters.items() if isinstance(value, int)}
        end = self._ends.get(channel)
        records = source.records(end or 0)
        if records:
            self._ends[channel] = records[-1].number
            self._passed += 0 if end is None else records[0].number - end - 1
        return of_records(channel, records, wall_ns())

    def _take_request(self, request: Request) -> None:
        self._requests += 1
        self._since = self._since or request.submitted_ns
        self._steps.add(request.name, request.bytes, request.submitted_ns)
        if request.kind in MEETINGS:
            self._named_arrivals.append(
                Meeting(
                    request.channel, request.batch, request.submitted_ns, request.done_ns, request.name, request.bytes
                )
            )
