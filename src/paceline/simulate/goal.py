"""One simulated step as a GOAL schedule, which LogGOPSim and ATLAHS load.

GOAL (Hoefler, Siebert, Lumsdaine: Group Operation Assembly Language, ICPP 2009) is text. It lists what every rank
computes, sends and receives, and what each of these requires. The messages are those of the engine's programs. A rank's
computation has CPU 0 to itself, its messages have CPU 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby

from paceline import _engine
from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.wire import PlanEntry, entry
from paceline.simulate.job import Moments
from paceline.simulate.models import BYTES
from paceline.topology import Topology

MOST_RANKS = 4096
"""Ranks of a schedule at most: a file of some gigabytes."""
_COMPUTATION, _MESSAGES = 0, 1
"""The CPUs of a rank."""


def schedule(moments: Moments, topology: Topology, algorithm: str | None = None) -> Iterator[str]:
    """Yield the lines of a schedule, whose times are nanoseconds.

    For each batch it is known when the first rank issued it. A rank that computes longer issues each batch later in
    proportion, and none later than it has submitted all gradients: what a policy negotiates is not in a schedule.
    Batches follow one another. algorithm: as of `paceline.plan.choose.choose`, which see for errors; ValueError too for
    more than `MOST_RANKS` ranks.
    """
    if topology.world > MOST_RANKS:
        raise ValueError(f"a GOAL schedule is for up to {MOST_RANKS} ranks, not {topology.world}")
    choices = choose("all_reduce", topology, algorithm=algorithm)
    batches = [(entry(serving(choices, each.nbytes)), each.nbytes // BYTES) for each in moments.batches]
    first = min(moments.ready)
    yield f"num_ranks {topology.world}"
    for rank, ready in enumerate(moments.ready):
        issued = [min(each.issued * ready / first if first else 0.0, ready) for each in moments.batches]
        lines = _Lines(rank, topology.world)
        yield f"rank {rank} {{"
        yield from lines.step(ready, issued, batches)
        yield "}"


class _Lines:
    """The lines of one rank."""

    def __init__(self, rank: int, world: int) -> None:
        self._rank, self._world = rank, world
        self._last = 0  # the number of the last label
        self._sent, self._received = Counter[int](), Counter[int]()  # messages of earlier batches, by peer

    def step(self, ready: float, issued: Iterable[float], batches: Iterable[tuple[PlanEntry, int]]) -> Iterator[str]:
        computed, over = 0, list[int]()
        before = 0.0
        for moment, (plan, count) in zip(issued, batches, strict=True):
            yield from self._calc(moment - before, _COMPUTATION, [computed] if computed else [])
            computed, before = self._last, max(moment, before)
            yield from self._calc(0.0, _MESSAGES, [computed, *over])
            yield from self._all_reduce(plan, count)
            over = [self._last]
        yield from self._calc(ready - before, _COMPUTATION, [computed] if computed else [])

    def _all_reduce(self, plan: PlanEntry, count: int) -> Iterator[str]:
        """All messages of a program; the label before this is what its first ones require, and the last is its end."""
        begun = self._last
        in_flight, messages = _engine.program(plan, self._rank, self._world, count)
        ends = list[int]()
        for number, (_, track) in enumerate(groupby(messages, key=lambda message: message[0])):
            stage, sends = begun if number < in_flight else ends[number - in_flight], list[int]()
            for _, together in groupby(track, key=lambda message: message[1]):
                receives = list[int]()
                for _, _, is_sent, peer, tag, nbytes in together:
                    way, numbers, base = ("send", sends, self._sent) if is_sent else ("recv", receives, self._received)
                    to = "to" if is_sent else "from"
                    what = f"{way} {nbytes}b {to} {peer} tag {base[peer] + tag} cpu {_MESSAGES}"
                    yield from self._operation(what, [stage])
                    numbers.append(self._last)
                if receives:
                    yield from self._calc(0.0, _MESSAGES, receives)
                    stage = self._last
            yield from self._calc(0.0, _MESSAGES, [stage, *sends])
            ends.append(self._last)
        yield from self._calc(0.0, _MESSAGES, [begun, *ends[-in_flight:]])
        for _, _, is_sent, peer, _, _ in messages:
            (self._sent if is_sent else self._received)[peer] += 1

    def _calc(self, seconds: float, cpu: int, required: Iterable[int]) -> Iterator[str]:
        yield from self._operation(f"calc {max(0, round(seconds * 1e9))} cpu {cpu}", required)

    def _operation(self, what: str, required: Iterable[int]) -> Iterator[str]:
        self._last += 1
        yield f"l{self._last}: {what}"
        for label in required:
            yield f"l{self._last} requires l{label}"
