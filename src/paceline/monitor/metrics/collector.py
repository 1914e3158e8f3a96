"""A rank's figures as Prometheus metrics."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from paceline.observe.figures import Figures
from paceline.observe.stragglers import lateness

_NANOSECONDS = "_ns"
"""Counters whose names end like this are shown in seconds."""


class RankCollector(Collector):
    """Takes the figures at each scrape.

    Metric names begin with `paceline_`; the labels are `rank` and often `group`.

    job: asks all ranks of the job for their figures, to tell of each of them how often it was the last; None on a rank
    that does not tell that.
    """

    def __init__(self, figures: Callable[[], Figures], job: Callable[[], Sequence[Figures]] | None = None) -> None:
        self._figures, self._job = figures, job
        self._before: dict[int, Figures] = {}
        self._often, self._late = Counter[int](), Counter[int]()
        self._last = self._counted = 0.0  # steps at the last scrape, and those that were shown
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Return no descriptions, so that no figures are taken before a scrape."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Yield all metrics with their present values."""
        figures = self._figures()
        rank = str(figures.rank)
        yield _counter("operations", "Collectives and messages started.", rank, figures.operations)
        yield _counter(
            "exposed_seconds", "Time during which at least one caller waited.", rank, figures.exposed_ns / 1e9
        )
        yield _counter("steps", "Training steps, see docs/diagnose/slow.md.", rank, self._steps(figures.steps))
        yield _counter("requests", "Named requests that ended.", rank, figures.requests)
        yield _gauge("step_seconds", "Median time of the last steps.", rank, figures.step_ns / 1e9)
        longest = max((wait.seconds for wait in figures.waits), default=0.0)
        yield _gauge("waiting_seconds", "How long the oldest operation in flight has waited.", rank, longest)
        moved = CounterMetricFamily("paceline_bytes", "Bytes of the operations that ended.", labels=["rank", "group"])
        for group in figures.groups.values():
            moved.add_metric([rank, group.name], group.bytes)
        yield moved
        yield from _coordinators(figures, rank)
        if self._job is not None:
            yield from self._lateness(self._job)

    def _lateness(self, job: Callable[[], Sequence[Figures]]) -> Iterable[Metric]:
        """Yield how often each rank was the last of all, of the calls that the ranks still know."""
        often = CounterMetricFamily(
            "paceline_arrived_last", "Collectives and tensors that this rank was the last to submit.", labels=["rank"]
        )
        late = CounterMetricFamily(
            "paceline_late_seconds", "Time by which it was later than the rank before it in these.", labels=["rank"]
        )
        with self._lock:
            after = job()
            for rank, ones in lateness(after, self._before or None).late.items():
                self._often[rank] += len(ones)
                self._late[rank] += round(sum(by for by, _ in ones))
            self._before |= {one.rank: one for one in after}
            for rank in sorted(self._often):
                often.add_metric([str(rank)], self._often[rank])
                late.add_metric([str(rank)], self._late[rank] / 1e9)
        yield often
        yield late

    def _steps(self, known: float) -> float:
        """Return the steps to show, a number that never falls.

        What is `known` does fall where a better way to tell steps begins to work, which counts from then on.
        """
        with self._lock:
            self._counted += max(0.0, known - self._last)
            self._last = known
            return self._counted


def _coordinators(figures: Figures, rank: str) -> Iterable[Metric]:
    families: dict[str, Metric] = {}
    for channel, counters in figures.coordinators.items():
        known = figures.groups.get(channel)
        for name, value in counters.items():
            time = name.endswith(_NANOSECONDS)
            shown = f"paceline_coordination_{name.removesuffix(_NANOSECONDS)}{'_seconds' if time else ''}"
            kind = GaugeMetricFamily if name.startswith("longest") else CounterMetricFamily
            family = families.setdefault(
                shown, kind(shown, f"The coordinator's counter {name}.", labels=["rank", "group"])
            )
            family.add_sample(
                shown if kind is GaugeMetricFamily else f"{shown}_total",
                {"rank": rank, "group": known.name if known else f"{channel:x}"},
                value / 1e9 if time else value,
            )
    return families.values()


def _counter(name: str, help: str, rank: str, value: float) -> Metric:
    family = CounterMetricFamily(f"paceline_{name}", help, labels=["rank"])
    family.add_metric([rank], value)
    return family


def _gauge(name: str, help: str, rank: str, value: float) -> Metric:
    family = GaugeMetricFamily(f"paceline_{name}", help, labels=["rank"])
    family.add_metric([rank], value)
    return family
