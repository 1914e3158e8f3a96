"""The part of a network that takes most of the time of its all-reduces, in words."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.plan.choice import serving
from paceline.plan.cost import LinkCost, cost
from paceline.plan.network import Network
from paceline.simulate.network import between_machines, choices_of, reached
from paceline.simulate.scenario import Scenario
from paceline.simulate.workload import IN_ORDER, Workload
from paceline.topology import Node
from paceline.topology.labels import speeds
from paceline.topology.units import show_speed

_ALIKE = 0.99
"""Links that are busy for at least this part of the time of the busiest one count as equally busy."""
_NAMED = 3
"""Links that are named at most."""
_OF = {"rank": "ranks inside their machines", "machine": "machines", "socket": "sockets", "switch": "switches"}


def bottleneck(scenario: Scenario) -> str:
    """Return what holds up the all-reduces of a scenario, as the subject of a sentence.

    It is what is busiest in an all-reduce of a full buffer, by the cost model.
    """
    topology, transport, nbytes = scenario.topology, scenario.workload.transport, _usual_bytes(scenario.workload)
    if scenario.workload.memory is not None and not between_machines(topology):
        return "the machine's memory"
    network, reach = Network(topology), reached(topology, transport.fraction(nbytes))
    predicted = cost(serving(choices_of(reach, scenario.plan), nbytes).outline, reach, nbytes)
    most = max((link.seconds for link in predicted.links), default=0.0)
    if transport.copying(nbytes) > max(most, predicted.latency):
        return f"copying between devices and their machines' memory ({show_speed(transport.host)})"
    if predicted.latency > most:
        return "the latency of the network's messages"
    nodes = [node for index, node in enumerate(network.nodes) if network.joins(index)]
    busiest = [pair for pair in zip(predicted.links, nodes, strict=True) if pair[0].seconds >= _ALIKE * most]
    return f"the network, whose busiest {_named(busiest)},"


def _named(busiest: Sequence[tuple[LinkCost, Node]]) -> str:
    (first, node), kinds = busiest[0], {link.kind for link, _ in busiest}
    speed = speeds(node.uplink) if node.uplink is not None else ""
    if any("speed" in node.assumed for _, node in busiest):
        speed += ", which is assumed"
    if len(busiest) == 1:
        where = " inside its machine" if first.kind == "rank" else ""
        return f"link is that of {first.name}{where} ({speed})"
    if len(kinds) > 1 or len(busiest) > _NAMED or first.kind == "rank":
        whose = " and ".join(_OF[kind] for kind in sorted(kinds))
        return f"links are those of {len(busiest)} {whose} ({speed})"
    return f"links are those of {', '.join(link.name for link, _ in busiest)} ({speed})"


def _usual_bytes(workload: Workload) -> int:
    """The bytes of a buffer that is as full as it gets."""
    if workload.policy == IN_ORDER:
        return max(gradient.nbytes for gradient in workload.gradients)
    return min(workload.nbytes, workload.fusion_bytes)
