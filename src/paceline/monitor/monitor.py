"""The place in a rank from which others see it: it answers questions, keeps the figures, writes timeline and report."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Protocol

from paceline.monitor.source_line import users_line
from paceline.monitor.stalls import DEFAULT_SECONDS, Stalls
from paceline.monitor.watchdog import Watchdog
from paceline.observe.annotations import Annotations
from paceline.settings.parsers import MetricsAddress
from paceline.settings.settings import Settings
from paceline.trace.dump import MAX_EVENTS
from paceline.trace.listener import Name
from paceline.trace.request import Request, of_records, wall_ns

if TYPE_CHECKING:  # what nobody asks for need not be loaded: it would cost each rank 20 ms
    from paceline.metrics.server import Server
    from paceline.observe.figures import Figures
    from paceline.observe.hand_ins import HandIns
    from paceline.observe.observer import Engine, Observer, Source
    from paceline.observe.periodic import Periodic
    from paceline.observe.timeline import Timeline
    from paceline.report.gather import Gathering, Pair

log = logging.getLogger("paceline")

_RANK = re.compile(r"rank (\d+) \(host .*, pid (\d+)\)$")
_PATIENCE = 0.5
"""Seconds for a missing rank to say where it is."""
_LONGEST_LINE = 8192


class Known(Protocol):
    """What is asked of a group that this process has had."""

    @property
    def name(self) -> str: ...
    @property
    def ranks(self) -> Sequence[int]: ...


class Monitor:
    """Of one rank, from its first group on. Costs nothing until something is asked for.

    me: what to call this rank. groups: by channel, all that this process has had, the job's first. trace: the dump of
    this rank, for `paceline trace`. timeout: seconds that the job's operations may take, if they are told no others.
    annotations, elsewhere: see `Observer`.
    """

    def __init__(
        self,
        settings: Settings,
        engine: Engine,
        groups: Mapping[int, Known],
        rank: int,
        me: str,
        trace: Callable[[], bytes],
        timeout: float,
        annotations: Annotations,
        elsewhere: int,
    ) -> None:
        self._job, world = next(iter(groups.items()))
        self._settings, self._rank, self._size, self._me = settings, rank, len(world.ranks), me
        self._trace = trace
        self._annotations, self._elsewhere = annotations, elsewhere
        self._coordinators: dict[int, Source] = {}
        self._closed: list[Request] = []
        self._gathering: Gathering | None = None
        self._server: Server | None = None
        self._groups = groups
        self._engine = engine
        self._observer: Observer | None = None
        self._lock = threading.Lock()
        self._timeline: Timeline | None = None
        self._looker: Periodic | None = None
        self._seconds = 0.25
        self._ready: HandIns | None = None
        patience = settings.stall_seconds
        patience = DEFAULT_SECONDS if patience is None else patience
        stalls = Stalls(engine, me, patience, timeout, self._whereabouts)
        self._name = Name(os.geteuid(), self._job, rank, os.getpid())
        self._watchdog = Watchdog(self._name, stalls, self._answer)

    @property
    def observer(self) -> Observer:
        """What follows this rank; from when it is first asked for."""
        with self._lock:
            if self._observer is None:
                from paceline.observe.observer import Observer

                coordinators = self._coordinators
                self._observer = Observer(
                    self._engine,
                    lambda: dict(coordinators),
                    self._named,
                    self._annotations,
                    self._rank,
                    self._size,
                    elsewhere=self._elsewhere,
                )
            return self._observer

    def begin(self, pair: Pair) -> None:
        """Start what the settings ask for; once. pair: see `Gathering`; every rank of the job calls this."""
        if self._settings.report is not None and self._gathering is None:
            from paceline.report.gather import Gathering

            self._gathering = Gathering(pair, self._job, self._rank, self._size)
            self.keep_looking()
        if self._settings.metrics is not None and self._server is None:
            self._server = self._serve_metrics(self._settings.metrics)

    def keep_looking(self) -> None:
        """From now on miss nothing: look often enough that the rings never run over."""
        if self._looker is None:
            from paceline.observe.periodic import Periodic

            self._looker = Periodic(self._look, "paceline-looker")

    def show(self, channel: int, coordinator: Source) -> None:
        """Let it be seen from here. channel: of the group that carries its data."""
        self._coordinators[channel] = coordinator

    def hide(self, channel: int) -> None:
        """A coordinator closes: take in what it has done, if anybody wants to know."""
        if channel in self._coordinators and (self._looker is not None or self._timeline is not None):
            self.observer.look()
        closed = self._coordinators.pop(channel, None)
        if closed is not None and self._settings.trace:
            self._closed = (self._closed + of_records(channel, closed.records(), wall_ns()))[-MAX_EVENTS:]

    def requests(self) -> list[Request]:
        """The last of all coordinators, as they ended; of those that are closed only if a dump will be written."""
        shift = wall_ns()
        found = dict(self._coordinators).items()
        return self._closed + [
            request for channel, one in found for request in of_records(channel, one.records(), shift)
        ]

    def figures(self) -> Figures:
        """Of this rank, as they are now."""
        return self.observer.figures()

    def start_timeline(self, path: str, mark_cycles: bool = False, here: bool | None = None) -> None:
        """See `paceline.timeline.start`."""
        self.stop_timeline()
        if self._rank == 0 if here is None else here:
            from paceline.observe.timeline import Timeline

            self._timeline = Timeline(path, self.observer, self._name, mark_cycles)

    def stop_timeline(self) -> None:
        """Finish the file. Nothing happens where none is being written."""
        timeline, self._timeline = self._timeline, None
        if timeline is not None:
            timeline.close()

    def close(self) -> None:
        """Nobody sees this rank any more. May be called while another thread is in any of this."""
        with ExitStack() as each:  # also after one that fails; the last is done first
            if self._gathering is not None:
                each.callback(self._report, self._gathering)
            if self._server is not None:
                each.callback(self._server.close)
            if self._looker is not None:
                each.callback(self._looker.close)
            each.callback(self.stop_timeline)
            each.callback(self._watchdog.close)

    def _report(self, gathering: Gathering) -> None:
        figures, place = self.figures(), self._settings.report
        if self._rank != 0:
            gathering.send(figures)
        elif place is not None:
            from paceline.report.report import leave, make

            others, missing = gathering.receive()
            leave(make([figures, *others], missing), place)

    def _serve_metrics(self, address: MetricsAddress) -> Server | None:
        try:
            from paceline.metrics.collector import RankCollector
            from paceline.metrics.server import Server
        except ImportError:
            log.warning("no metrics: they need the package prometheus_client (pip install 'paceline[metrics]')")
            return None
        first = address.low + self._settings.local_rank
        try:
            server = Server(address, first, self._settings.metrics_token or "", RankCollector(self.figures))
        except OSError as error:
            log.warning("no metrics at %s, ports %d to %d: %s", address.host, first, address.high, error)
            return None
        self.keep_looking()
        log.info("%s serves metrics at http://%s:%d/metrics", self._me, address.host, server.port)
        return server

    def _look(self) -> float:
        from paceline.observe.periodic import seconds_to_next

        self._seconds = seconds_to_next(self.observer.look(), self._seconds)
        return self._seconds

    def _answer(self, question: str) -> bytes:
        words = question.split()
        if words == ["trace"]:
            return self._trace()
        if words == ["line"]:
            return users_line().encode()
        if words == ["figures"]:
            from paceline.observe.figures import encode

            return encode(self.figures())
        if len(words) == 2 and words[0] == "ready":
            if self._ready is None:
                from paceline.observe.hand_ins import HandIns

                self._ready = HandIns(self.observer)
            return self._ready.since(int(words[1]))
        raise ValueError(f"no such question: {question!r:.100}")

    def _whereabouts(self, who: str) -> str:
        """Where in its program a rank of this machine is now; empty for one that is elsewhere."""
        from paceline.trace.asking import Silence, question

        found = _RANK.search(who)
        if found is None:
            return ""
        name = Name(os.geteuid(), self._job, int(found[1]), int(found[2]))
        try:
            answer = question(name, "line", bytes.decode, _PATIENCE, _LONGEST_LINE)
        except OSError:  # there may be no such sockets here
            return ""
        if isinstance(answer, Silence):
            return f"which {answer.reason}"
        return f"now at {answer}" if answer else ""

    def _named(self) -> dict[int, tuple[str, int]]:
        return {
            channel: (group.name, len(group.ranks))
            for channel, group in dict(self._groups).items()
            if not self._annotations.internal.has_group(channel)
        }
