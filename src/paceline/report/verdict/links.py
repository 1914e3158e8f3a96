"""The load that a step's all-reduces put on every link between machines, by the planner's cost model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.codecs import CODECS, ENCODED_FROM
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.settings.names import NONE
from paceline.topology import Topology


@dataclass(frozen=True, slots=True)
class LinkUse:
    """The link above a machine or switch, in one step.

    up, down: its bytes per second, as the job's topology has them. nbytes: the bytes that the cost model sends over it
    in each direction. seconds: for which they keep it busy.
    """

    name: str
    up: float
    down: float
    nbytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Communication:
    """The communication of a step's all-reduces by the cost model: seconds if they follow each other, and the links,
    the busiest first. Links inside machines are left out."""

    seconds: float
    links: tuple[LinkUse, ...]


def communication(topology: Topology, sizes: Mapping[int, float], codec: str = NONE) -> Communication:
    """Return what all-reduces of these sizes cost. sizes: how many of each number of bytes are in a step.

    codec: what encodes them between machines.
    """
    network = Network(topology)
    choices = choose("all_reduce", topology)
    coder = CODECS.get(codec)
    costs = [
        (
            times,
            cost(serving(choices, nbytes).outline, network, nbytes, codec=coder if nbytes >= ENCODED_FROM else None),
        )
        for nbytes, times in sizes.items()
    ]
    places = [index for index in range(len(network.nodes)) if network.joins(index)]
    links = tuple(
        LinkUse(
            name=network.name(index),
            up=float(network.up[index]),
            down=float(network.down[index]),
            nbytes=sum(times * each.links[place].bytes for times, each in costs),
            seconds=sum(times * each.links[place].seconds for times, each in costs),
        )
        for place, index in enumerate(places)
        if network.nodes[index].kind in ("machine", "switch")
    )
    return Communication(
        sum(times * each.seconds for times, each in costs), tuple(sorted(links, key=lambda link: -link.seconds))
    )
