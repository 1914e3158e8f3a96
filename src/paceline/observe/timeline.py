"""The timeline of a running job, written by its first rank."""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Iterator

from paceline.observe.json_stream import Stream
from paceline.observe.news import News
from paceline.observe.observer import Observer
from paceline.observe.periodic import Periodic
from paceline.observe.submissions import MAX_BYTES, decode
from paceline.observe.trace import live
from paceline.observe.trace.asking import questions
from paceline.observe.trace.chrome import operation
from paceline.observe.trace.listener import Name
from paceline.observe.trace.phases import Tensors, Turns, slices
from paceline.observe.trace.record import metadata
from paceline.observe.trace.request import Request

_SECONDS = 0.25
"""Seconds from one round to the next."""
_PATIENCE = 0.25
"""Seconds that the other ranks have to answer; a stopped rank costs the writing thread as much in each round."""
_LAST_PATIENCE = 1.0
"""Seconds that they have to answer in the last round, and to end what has ended here."""
_ENDING = 0.01
"""Seconds from one question to the next in the last round."""
_MAX_WAITING = 16384
"""Requests that wait to be written; older ones are left out."""

log = logging.getLogger("paceline")


class Timeline:
    """Writes what this rank does from now on to the file `path`, in a thread of its own.

    Ticks show when the other ranks of this machine submitted their requests. Memory is bounded: what cannot be written
    in time is left out. name: the name of this rank's socket, by which the others are found. mark_cycles: whether to
    mark when each batch was issued. Raises OSError if the file cannot be made.
    """

    def __init__(self, path: str, observer: Observer, name: Name, mark_cycles: bool = False) -> None:
        self._stream = Stream(path)
        self._path, self._observer, self._name, self._mark = path, observer, name, mark_cycles
        self._origin = time.time_ns()
        self._news: deque[News] = deque()
        self._waiting: deque[Request] = deque(maxlen=_MAX_WAITING)
        self._ready: dict[tuple[int, int, str], dict[int, int]] = {}
        self._ranks: dict[int, set[int]] = {}  # by channel: who has submitted something there
        self._asked = self._origin
        self._tensors, self._turns = Tensors(), Turns()
        self._rows: dict[int, int] = {}
        self._batch = -1
        self._broken = False  # whether the file could not be written
        self._stream.write(self._head())
        observer.look()  # what ended before does not belong to the timeline
        observer.follow(self._news.append)
        self._thread: Periodic | None = Periodic(self._next_round, "paceline-timeline")

    def close(self) -> None:
        """Write what is left, and close the file."""
        if self._thread is None:
            return
        self._thread.close()
        self._thread = None
        try:
            if not self._broken:
                self._round()
                self._ask_until_all_have_ended()
                self._stream.write(self._of_requests(len(self._waiting)))
        except OSError as error:
            self._give_up(error)
        finally:
            self._observer.unfollow(self._news.append)
            self._stream.close()

    def _next_round(self) -> float:
        if self._broken:
            self._news.clear()
            return _SECONDS
        try:
            self._round()
        except OSError as error:
            self._give_up(error)
        return _SECONDS

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        log.warning("the timeline %s is not complete: %s", self._path, error.strerror)

    def _round(self) -> None:
        """Write a round. Requests wait for one round, because they may end later on other ranks than here."""
        due = len(self._waiting)
        self._observer.look()
        while self._news:
            news = self._news.popleft()
            self._stream.write(self._of_events(news))
            self._waiting.extend(news.requests)
        if due:
            self._ask(_PATIENCE)
        self._stream.write(self._of_requests(due))

    def _head(self) -> Iterator[dict[str, object]]:
        rank = self._name.rank
        yield metadata("process_name", rank, 0, start_time_since_epoch_in_micros=self._origin // 1000)
        yield metadata("process_name", rank, 0, name=f"rank {rank} (pid {self._name.pid})")
        yield metadata("process_sort_index", rank, 0, sort_index=rank)

    def _of_events(self, news: News) -> Iterator[dict[str, object]]:
        rank = self._name.rank
        for event in news.events:
            row = self._rows.get(event.channel)
            if row is None:
                row = self._rows[event.channel] = 1 + 2 * len(self._rows)
                yield metadata("thread_name", rank, row, name=f"group {len(self._rows) - 1}")
                yield metadata("thread_name", rank, row + 1, name=f"group {len(self._rows) - 1}: queue")
            yield from operation(event, rank, row, self._origin, event.end_ns)

    def _of_requests(self, count: int) -> Iterator[dict[str, object]]:
        rank = self._name.rank
        for _ in range(min(count, len(self._waiting))):
            request = self._waiting.popleft()
            pid, new = self._tensors.row(request.name, rank)
            yield from new
            ready = {rank: request.submitted_ns, **self._ready.pop(request.key, {})}
            yield from slices(request, pid, rank, self._origin, self._turns.of(request), ready)
            if self._mark and request.batch != self._batch:
                self._batch = request.batch
                moment = (request.negotiated_ns - self._origin) / 1000
                yield {"name": "CYCLE_START", "ph": "i", "s": "g", "pid": rank, "tid": 0, "ts": moment}

    def _ask_until_all_have_ended(self) -> None:
        """There is no later round for what has ended here and not yet on other ranks."""
        end = time.monotonic() + _LAST_PATIENCE
        left = _LAST_PATIENCE
        while left > 0:
            asked = self._ask(left)
            if not any(
                self._ranks.get(one.channel, set()) & asked - self._ready.get(one.key, {}).keys()
                for one in self._waiting
            ):
                return
            time.sleep(_ENDING)
            left = end - time.monotonic()

    def _ask(self, patience: float) -> set[int]:
        """Ask the other ranks of this machine when they submitted the requests that wait to be written.

        Returns which ranks were asked.
        """
        names = [name for name in live.listening() if name.job == self._name.job and name.rank != self._name.rank]
        if not names:
            return set()
        moment, self._asked = self._asked, time.time_ns()
        wanted = {request.key for request in self._waiting}
        answers = questions(names, f"ready {moment - 10**9}", decode, patience, MAX_BYTES)
        self._ready = {key: ranks for key, ranks in self._ready.items() if key in wanted}
        for name, answer in zip(names, answers, strict=True):
            for channel, batch, tensor, submitted in answer if isinstance(answer, list) else ():
                self._ranks.setdefault(channel, set()).add(name.rank)
                if (channel, batch, tensor) in wanted:
                    self._ready.setdefault((channel, batch, tensor), {})[name.rank] = submitted
        return {name.rank for name in names}
