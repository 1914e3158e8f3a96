"""Choose which plan serves which size between machines: the cheapest one by the cost model.

Throughout, `ranks[i]` is the rank of the group that sits at place i of the topology, in the order of a walk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import NamedTuple

from paceline.calibration import plan as fitted
from paceline.formats.sizes import show_bytes, show_seconds
from paceline.plan.algorithms import ALGORITHMS, named
from paceline.plan.blocks import blocks
from paceline.plan.broadcast_chain import broadcast_chain
from paceline.plan.broadcast_tree import broadcast_tree
from paceline.plan.choice import NO_LIMIT, Choice
from paceline.plan.chunk import chunk_bytes
from paceline.plan.cost import Line, cost, mean
from paceline.plan.direct import direct
from paceline.plan.exchange import exchange
from paceline.plan.ir import Plan
from paceline.plan.network import Network
from paceline.plan.outline import outline
from paceline.plan.relabel import relabel
from paceline.plan.ring import ring_of_blocks
from paceline.plan.turned import turned
from paceline.plan.wire import fits
from paceline.topology import Topology

EXCHANGED_BYTES = 64 * 1024
"""Bytes up to which leaders exchange whole buffers. They overwrite their copies without knowing which leaders have read
them, which is right only where every message is copied out at once: never above the eager limit of links between
machines."""

SIZES = tuple(1 << power for power in range(10, 31))
"""Sizes in bytes at which plans are compared. What is best at one of them serves all sizes above the one before it."""
_USUAL = 32 << 20
"""Bytes for which the time is predicted where a choice has no limit."""
_PREFERRED = ("paceline", "flexreduce")
"""The algorithms that win ties, in this order."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    name: str
    line: Line
    plan: Callable[[], Plan]
    one_shot: bool = False
    limit: int = SIZES[-1]
    """Bytes of the largest buffer that it can serve."""

    def at(self, nbytes: int) -> _Priced:
        """With the chunks into which a buffer of this size is cut."""
        if self.one_shot:
            return _Priced(self, self.line.chunk, self.line.seconds(nbytes))
        return _Priced(self, *self.line.cheapest(nbytes))


class _Priced(NamedTuple):
    """A candidate for buffers of one size."""

    candidate: _Candidate
    chunk: int
    seconds: float


def all_reduce(topology: Topology, ranks: Sequence[int], algorithm: str | None) -> tuple[Choice, ...]:
    """Return the choices for an all-reduce, by rising limit.

    algorithm: the name of the algorithm to use for all sizes; None compares them all. Raises ValueError, which lists
    the known names, for an unknown one.
    """
    if algorithm is not None:
        reason, chunk = f"The algorithm {algorithm} was asked for.", chunk_bytes(_network(topology))
        return (Choice(relabel(named(algorithm).plan(topology), ranks), NO_LIMIT, reason, chunk=chunk),)
    return _cheapest(_all_reduces(topology), ranks)


# Groups between the same machines come one after another, and what keeps a group's plans to its network asks for those
# that were just made. No large plan is kept: candidates make theirs once they are chosen.
_network = lru_cache(maxsize=1)(Network)


@lru_cache(maxsize=1)
def _all_reduces(topology: Topology) -> tuple[_Candidate, ...]:
    network = _network(topology)
    chunk = chunk_bytes(network)
    candidates: list[_Candidate] = []
    for one in map(named, dict.fromkeys((*_PREFERRED, *ALGORITHMS))):
        lines = one.lines(topology)
        if all(fits(step.level) for step in lines.steps):
            line = cost(lines, network, SIZES[-1], chunk).line
            candidates.append(_Candidate(one.name, line, partial(one.plan, topology)))
    if sum(1 for _ in topology.machines()) <= fitted.MOST_LEADERS:
        at_once = exchange(topology)
        line = cost(outline(at_once, one_shot=True), network, SIZES[-1], chunk).line
        candidates.append(_Candidate(at_once.name, line, partial(_same, at_once), True, EXCHANGED_BYTES))
    return tuple(candidates)


def all_gather(topology: Topology, ranks: Sequence[int]) -> tuple[Choice, ...]:
    """Return the choices for an all-gather, in which rank i owns block i, by rising limit."""
    places = sorted(range(len(ranks)), key=ranks.__getitem__)
    network = _network(topology)
    plans = (relabel(blocks(topology, ranks), ranks), ring_of_blocks(ranks), direct(len(ranks)))
    chunk = chunk_bytes(network)
    lines = [cost(relabel(plan, places), network, SIZES[-1], chunk).all_gather for plan in plans]
    candidates = [_Candidate(plan.name, line, partial(_same, plan)) for plan, line in zip(plans, lines, strict=True)]
    return _cheapest(candidates, range(len(ranks)))


def _same(plan: Plan) -> Plan:
    return plan


def broadcast(topology: Topology, ranks: Sequence[int]) -> tuple[Choice, ...]:
    """Return the choices for a broadcast from rank 0, by rising limit."""
    return _broadcast(topology, ranks, lambda plan: [plan])


def turned_broadcast(topology: Topology, ranks: Sequence[int]) -> tuple[Choice, ...]:
    """Return the choices of trees from rank 0 that are to be turned to another root, by rising limit.

    They are compared by their mean cost from a few such roots.
    """
    own, world = list(ranks).index(0), len(ranks)
    steps = range(1, fitted.BROADCAST_ROOTS + 1)
    roots = sorted({(own + step * world // (len(steps) + 1)) % world for step in steps} - {own})
    return _broadcast(topology, ranks, lambda plan: [turned(plan, root) for root in roots])


def _broadcast(topology: Topology, ranks: Sequence[int], used: Callable[[Plan], Sequence[Plan]]) -> tuple[Choice, ...]:
    """`used` returns the plans that a plan from rank 0 will be turned into; their mean cost decides."""
    network, own = _network(topology), list(ranks).index(0)
    chunk = chunk_bytes(network)
    plans = [broadcast_tree(topology, own)]
    if sum(1 for _ in topology.machines()) <= fitted.LONGEST_CHAIN:
        plans.append(broadcast_chain(topology, own))
    # What goes up in a reduction comes down in a broadcast.
    lines = [[cost(one, network, SIZES[-1], chunk).all_gather for one in used(plan)] for plan in plans]
    candidates = [
        _Candidate(plan.name, mean(line), partial(_same, plan)) for plan, line in zip(plans, lines, strict=True)
    ]
    return _cheapest(candidates, ranks)


def _cheapest(candidates: Sequence[_Candidate], ranks: Sequence[int]) -> tuple[Choice, ...]:
    choices: list[Choice] = []
    made: dict[str, Plan] = {}
    priced = {nbytes: [one.at(nbytes) for one in candidates if nbytes <= one.limit] for nbytes in SIZES}
    best = [(nbytes, _best(able, nbytes)) for nbytes, able in priced.items()]
    for (chosen, chunk), sizes in groupby(best, key=lambda pair: (pair[1].candidate.name, pair[1].chunk)):
        served = list(sizes)
        (smallest, (candidate, *_)), largest = served[0], served[-1][0]
        limit = NO_LIMIT if largest == SIZES[-1] else largest
        usual = largest if limit != NO_LIMIT else max(smallest, _USUAL)
        predicted = sorted(((one.candidate.name, one.seconds) for one in priced[usual]), key=lambda pair: pair[1])
        predicted.sort(key=lambda pair: pair[0] != chosen)
        if chosen not in made:
            made[chosen] = relabel(candidate.plan(), ranks)
        reason = _reason(choices[-1].limit if choices else 0, limit, usual, predicted)
        under_way = candidate.line.cut(largest).under_way
        choices.append(
            Choice(made[chosen], limit, reason, candidate.one_shot, chunk, under_way, usual, tuple(predicted))
        )
    return tuple(choices)


def _best(able: Sequence[_Priced], nbytes: int) -> _Priced:
    least = min(one.seconds for one in able)
    tie = fitted.TIE if nbytes <= EXCHANGED_BYTES else fitted.TIE_IN_CHUNKS
    return next(one for one in able if one.seconds <= least * (1 + tie))


def _reason(above: int, limit: int, nbytes: int, predicted: Sequence[tuple[str, float]]) -> str:
    (name, seconds), *others = predicted
    if limit != NO_LIMIT:
        which = f"Up to {show_bytes(limit)}"
    else:
        which = f"Above {show_bytes(above)}" if above else "At any size"
    beside = ", ".join(f"{other} {show_seconds(took)}" for other, took in others)
    return (
        f"{which} {name} is as quick as any, by the cost model: {show_bytes(nbytes)} take {show_seconds(seconds)}"
        f"{', with ' if beside else ''}{beside}."
    )
