"""The verdict on a job that runs, from what its first rank sees of itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from paceline.observe.figures import Figures
from paceline.observe.internal import InternalOperations
from paceline.observe.news import News
from paceline.observe.observer import Observer
from paceline.observe.rates import rates
from paceline.observe.spans import covered
from paceline.report.verdict.links import communication
from paceline.report.verdict.predict import coded
from paceline.report.verdict.verdict import COMPUTATION, DATA, EXPOSED, Evidence, Gain, Verdict, judge
from paceline.settings.names import NONE
from paceline.simulate.network import between_machines
from paceline.topology import Topology

WARM_UP = 10
"""Steps that are not looked at."""
STEPS = 20
"""Steps that are looked at, at least."""
_EXPLAINED = 0.5
"""The share of the waiting that the model of the network must explain so that a codec is offered against it: the rest
may be for a rank that is late, against which no codec helps."""
_MOST = 1 << 16
"""Operations that are kept from one look to the next, which may be hours later."""
_ALONE = "Only rank {} was looked at: the report at the end (PACELINE_REPORT) says which rank is slow."


class RunningVerdict:
    """Looks at one rank, until it can say what limits its job, and then anew.

    internal: the operations that Paceline starts for itself. topology: returns the network of the job as it is known
    now. codec: what encodes data between machines.
    """

    def __init__(
        self, observer: Observer, internal: InternalOperations, topology: Callable[[], Topology | None], codec: str
    ) -> None:
        self._observer, self._internal, self._topology, self._codec = observer, internal, topology, codec
        self._before: Figures | None = None
        self._sizes: Counter[int] = Counter()
        self._spans: list[tuple[int, int]] = []
        self._left_out = 0

    def look(self) -> Verdict | None:
        """Return the verdict once the job has made its steps since the last one; None before."""
        figures = self._observer.figures()
        if self._before is None:
            if figures.steps >= WARM_UP:
                self._before = figures
                self._observer.follow(self._note)
            return None
        if figures.steps < self._before.steps + STEPS:
            return None
        self._observer.unfollow(self._note)
        found = judge(self._evidence(figures, self._before))
        self._before, self._left_out = None, 0
        self._sizes.clear()
        self._spans.clear()
        return replace(found, details=(*found.details, _ALONE.format(figures.rank)))

    def _note(self, news: News) -> None:
        for event in news.events:
            if event.state == "done" and event.collective == "all_reduce" and event not in self._internal:
                if len(self._spans) == _MOST:
                    self._left_out += 1
                    continue
                self._sizes[event.bytes] += 1
                self._spans.append((event.start_ns, event.end_ns))

    def _evidence(self, after: Figures, before: Figures) -> Evidence:
        found = rates(after, before)
        seen = sum(self._sizes.values())
        passed = after.unseen - before.unseen + self._left_out
        scale = (seen + passed) / max(1, seen) / found.steps  # those that went by were like those that were seen
        step = found.seconds / found.steps
        exposed = min(step, (found.exposed_ms or 0.0) / 1e3)
        data = min(step - exposed, (found.data_ms or 0.0) / 1e3)
        topology = self._topology()
        sizes = {nbytes: scale * count for nbytes, count in self._sizes.items()}
        several = topology is not None and between_machines(topology)
        model = communication(topology, sizes, self._codec) if several and topology is not None else None
        gains: tuple[Gain, ...] = ()
        explained = model is not None and model.seconds >= _EXPLAINED * exposed
        if explained and model is not None and topology is not None and self._codec == NONE:
            # what the model does not explain may be waiting for other ranks
            gains = (coded(topology, sizes, step, min(exposed, model.seconds), EXPOSED),)
        parts = {COMPUTATION: step - exposed - data, DATA: data, EXPOSED: exposed}
        return Evidence(
            ranks=after.size,
            machines=2 if several else 1,
            steps=found.steps,
            parts={part: seconds for part, seconds in parts.items() if seconds > 0},
            nbytes=found.bytes_per_step or 0.0,
            ideal=model.seconds if model is not None else None,
            actual=scale * covered(self._spans) / 1e9,
            links=model.links if model is not None else (),
            gains=gains,
        )
