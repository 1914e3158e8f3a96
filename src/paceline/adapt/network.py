"""The network that a group's plans were made for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from paceline.adapt.trusted import trusted
from paceline.calibration import adapt as fitted
from paceline.plan.choice import Choice, serving
from paceline.plan.choose import choose
from paceline.plan.cost import Line, cost
from paceline.plan.network import Network
from paceline.plan.relabel import relabel
from paceline.topology import Link, Topology
from paceline.topology.alike import alike
from paceline.topology.discover import Placement
from paceline.topology.labels import speeds
from paceline.topology.measured import Measured
from paceline.topology.relink import relink

_MOST_NAMES = 8
_USUAL = 32 << 20
"""Bytes of the all-reduce by which plans are compared."""


class _Priced(NamedTuple):
    """The plans of a collective for all sizes, and by their limits the seconds of each as a function of the size."""

    choices: tuple[Choice, ...]
    lines: Mapping[int, Line]


class AssumedNetwork:
    """The network that the plans of a group assume: rank `placement.ranks[i]` sits at place i of the topology."""

    def __init__(self, placement: Placement) -> None:
        self.placement = placement
        self._priced: dict[str, _Priced] = {}

    def prepare(self) -> None:
        """Make the plans whose seconds will be asked for, which takes tens of milliseconds each."""
        for collective in ("all_reduce", "all_gather"):
            self._of(collective)

    def seconds(self, collective: str, nbytes: int) -> float:
        """The seconds that an all-reduce, all-gather or reduce-scatter should take.

        nbytes: the size of the whole buffer; that is all ranks' parts together for the last two.
        """
        priced = self._of("all_reduce" if collective == "all_reduce" else "all_gather")
        choice = serving(priced.choices, nbytes)
        line = priced.lines[choice.limit]
        if collective != "all_reduce" or not choice.chunk:
            line = replace(line, chunk=nbytes)
        return line.seconds(nbytes)

    def _of(self, collective: str) -> _Priced:
        if collective not in self._priced:
            self._priced[collective] = _price(collective, self.placement.topology)
        return self._priced[collective]

    def slower(self, now: Placement) -> float:
        """Return the factor by which the network `now` should slow down a large all-reduce by the present plan."""
        choice = serving(self._of("all_reduce").choices, _USUAL)
        place = {rank: place for place, rank in enumerate(now.ranks)}
        plan = relabel(choice.plan, [place[rank] for rank in self.placement.ranks])
        there = cost(plan, now.topology, _USUAL, choice.chunk or _USUAL).line
        return there.seconds(_USUAL) / self.seconds("all_reduce", _USUAL)

    def measured(self, found: Placement, measured: Measured) -> tuple[Placement, str]:
        """The network with the links that were measured, see `relink`, and the links that changed, in words.

        The words are empty if no link differs from what it was taken for by more than the measurement's error.
        """
        factor = max(fitted.OTHER_SPEED, measured.spread)
        found = trusted(self.placement, found, measured)
        found = replace(found, topology=alike(found.topology, factor))
        now = relink(self.placement, found, measured.loads)
        before, links = dict(_links(self.placement.topology)), dict(_links(now.topology))
        if before.keys() == links.keys() and not any(
            _other(link, before[name], factor) for name, link in links.items()
        ):
            return now, ""
        news = []
        for name, link in links.items():
            known = before.get(name)
            news.append(f"{name} {speeds(link)} ({'new' if known is None else f'taken for {speeds(known)}'})")
        return now, ", ".join(news)


def _price(collective: str, topology: Topology) -> _Priced:
    choices = choose(collective, topology)
    network = Network(topology)
    costs = {choice.limit: cost(choice.plan, network, _USUAL, choice.chunk or _USUAL) for choice in choices}
    if collective == "all_reduce":
        return _Priced(choices, {limit: each.line for limit, each in costs.items()})
    # A reduce-scatter is an all-gather backwards.
    return _Priced(choices, {limit: each.all_gather for limit, each in costs.items()})


def _other(link: Link, known: Link, factor: float) -> bool:
    return any(_differ(*ways, factor) for ways in ((link.up, known.up), (link.down, known.down)))


def _differ(now: float, known: float, factor: float) -> bool:
    return min(now, known) < fitted.FASTEST_MEASURED and not 1 / factor < now / known < factor


def _links(topology: Topology) -> Iterator[tuple[str, Link]]:
    """The links of machines and switches with their names; a switch's name lists its machines.

    Between two machines alone all traffic crosses both of their links, and no measurement tells which one is slow: it
    is the way from the first to the second, and back, that counts.
    """
    nodes = [node for node in topology.root.walk() if node.uplink is not None and node.kind in ("machine", "switch")]
    if [node.kind for node in nodes] == ["machine", "machine"]:
        first, second = nodes
        assert first.uplink is not None and second.uplink is not None
        there, back = min(first.uplink.up, second.uplink.down), min(first.uplink.down, second.uplink.up)
        yield f"the link between {first.name} and {second.name}", replace(first.uplink, up=there, down=back)
        return
    for node in nodes:
        assert node.uplink is not None
        machines = [below.name for below in node.walk() if below.kind == "machine"]
        names = machines[:_MOST_NAMES] + ["…"] * (len(machines) > _MOST_NAMES)
        yield node.name if node.kind == "machine" else f"{node.name} of {' '.join(names)}", node.uplink
