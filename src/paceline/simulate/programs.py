"""An all-reduce in virtual time: the engine's own programs, message by message, on links that are shared fairly.

Where the cost model adds up loads, this follows every message: `engine/simulate/network` says how. It suits up to some
hundred ranks.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from paceline import _engine
from paceline.calibration import plan as fitted
from paceline.plan.choice import Choice
from paceline.plan.network import Network
from paceline.plan.wire import entry
from paceline.simulate.models import BYTES
from paceline.topology import Link, Topology

_NOTHING = Link(math.inf, math.inf)


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageCost:
    """The cost of a message beside the time of its bytes: the constants of the planner's cost model."""

    between: float = fitted.MESSAGE_SECONDS
    """Seconds of a rank's time for one more message between machines, at either end."""
    within: float = fitted.LOCAL_MESSAGE_SECONDS
    """Seconds of a rank's time for one more message within a machine, at either end."""
    shared_between: float = fitted.CROWDED_MESSAGE_SECONDS
    """Seconds of a CPU for a message between machines, at either end, where ranks share too few CPUs."""
    shared_within: float = fitted.CROWDED_LOCAL_MESSAGE_SECONDS
    """Seconds of a CPU for a message within a machine, at either end, where ranks share too few CPUs."""
    header: float = fitted.HEADER_BYTES
    """Bytes that a message between machines adds to its payload on every link."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The outcome of an all-reduce."""

    ranks: tuple[float, ...]
    """The seconds after which each rank was done."""
    messages: int
    events: int
    """Messages that left, came and were taken in."""
    links: dict[str, tuple[float, float]]
    """Bytes that crossed the link above each node up and down, with headers; a node without a link is left out."""

    @property
    def seconds(self) -> float:
        """The seconds until the last rank was done."""
        return max(self.ranks)


def all_reduce(choice: Choice, topology: Topology, nbytes: int, cost: MessageCost | None = None) -> Run:
    """Carry out an all-reduce of float32 by a choice's plan, whose ranks are those of the topology.

    nbytes: bytes of the buffer; what is left of a float32 is cut off. cost: None takes the cost model's constants.
    Raises ValueError if the plan is for another number of ranks.
    """
    if choice.plan.world != topology.world:
        raise ValueError(f"the plan is for {choice.plan.world} ranks, the topology has {topology.world}")
    network = Network(topology)
    each = astuple(cost or MessageCost())
    seconds, messages, events, carried = _engine.run_programs(_tree(network), entry(choice), nbytes // BYTES, *each)
    links = {network.name(i): (carried[2 * i], carried[2 * i + 1]) for i in range(1, len(network.nodes))}
    return Run(ranks=tuple(seconds), messages=messages, events=events, links=links)


def _tree(network: Network) -> _engine.Tree:
    links = [node.uplink or _NOTHING for node in network.nodes]
    nodes = [
        (above, link.up, link.down, link.latency, link.burst) for above, link in zip(network.parent, links, strict=True)
    ]
    cpus_of, cpus = [-1] * network.world, list[int]()
    for ranks, count in network.crowds:
        for rank in ranks:
            cpus_of[rank] = len(cpus)
        cpus.append(count)
    return _engine.Tree(nodes, network.leaves, network.machine.tolist(), cpus_of, cpus)
