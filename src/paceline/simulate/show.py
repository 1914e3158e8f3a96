"""The answers as sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from paceline.plan.network import Network
from paceline.simulate.answer import Answer
from paceline.simulate.network import between_machines
from paceline.simulate.workload import IN_ORDER
from paceline.topology import Topology
from paceline.topology.units import show_speed

_PAYS = 1.5
"""Times as much throughput that twice as many ranks must give, or the curve has bent."""
_BINDS = {
    "computation": "the computation itself",
    "delay": "the delay of ranks",
    "last_rank": "waiting for the last rank",
    "negotiation": "agreeing on the last batch (the policy)",
    "peers": "waiting for other ranks to issue the last batch",
    "after": "what comes after the exchange",
}


def binds(answer: Answer, topology: Topology) -> str:
    """Return a sentence that says what takes most of the step."""
    part, share = max(answer.shares.items(), key=lambda item: item[1])
    what = _BINDS.get(part) or _slowest(topology)
    where = f" ({answer.network})" if answer.network else ""
    return f"On {answer.ranks} ranks{where} {what} takes most of the step, {share:.0%} of it."


def knee(answers: Sequence[Answer]) -> str | None:
    """Return a sentence that says where more ranks stop to pay; None for fewer than two numbers of ranks.

    answers: those of one policy and algorithm, by rising ranks.
    """
    if len(answers) < 2:
        return None
    the, there = (
        ("The", "There")
        if answers[0].policy == IN_ORDER
        else (f"With {answers[0].policy} {w}" for w in ("the", "there"))
    )
    for before, after in pairwise(answers):
        doublings = math.log2(after.ranks / before.ranks)
        if doublings > 0 and after.throughput < before.throughput * _PAYS**doublings:
            gained = after.throughput / before.throughput - 1
            said = f"{gained:+.0%} batches/s" if gained > 0 else f"{-gained:.0%} fewer batches/s"
            return f"{the} knee is at {before.ranks} ranks; {after.ranks} give {said}."
    return f"{there} is no knee up to {answers[-1].ranks} ranks."


def _slowest(topology: Topology) -> str:
    if not between_machines(topology):
        return "the machine's memory"
    network = Network(topology)
    speeds = [
        (min(network.up[index], network.down[index]), network.name(index))
        for index, node in enumerate(network.nodes)
        if node.kind in ("machine", "switch") and network.joins(index)
    ]
    speed, name = min(speeds)
    return f"the network, whose slowest link is that of {name} ({show_speed(float(speed))}),"
