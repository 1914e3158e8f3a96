"""The answers as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rich.table import Table

from paceline.formats.numbers import number
from paceline.formats.sizes import show_seconds
from paceline.plan.network import Network
from paceline.simulate.answer import INTERVAL, Answer
from paceline.simulate.job import PARTS
from paceline.simulate.network import between_machines
from paceline.simulate.scenario import Advice
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


def table(answers: Sequence[Answer]) -> Table:
    """Return a row for each answer: the step, its interval, the throughput, and where the step goes."""
    found = Table(box=None, pad_edge=False)
    networks = len({each.network for each in answers}) > len({each.ranks for each in answers})
    words = ("network", "policy", "algorithm") if networks else ("policy", "algorithm")
    numbers = ("step", f"{INTERVAL} %", "batches/s", "efficiency")
    for column in ("ranks", *words, *numbers, *(part.replace("_", " ") for part in PARTS)):
        found.add_column(column, justify="left" if column in words else "right")
    for each in answers:
        found.add_row(
            str(each.ranks),
            *((each.network,) if networks else ()),
            each.policy,
            each.algorithm,
            show_seconds(each.step.seconds),
            f"{show_seconds(each.low)} to {show_seconds(each.high)}",
            number(each.throughput),
            f"{each.efficiency:.1%}",
            *(f"{share:.1%}" for share in each.shares.values()),
        )
    return found


def advice_table(found: Sequence[Advice]) -> Table:
    """Return a row for each change, the one that gains most first."""
    result = Table(box=None, pad_edge=False)
    for column in ("gain", "step", "change"):
        result.add_column(column, justify="left" if column == "change" else "right")
    for each in found:
        result.add_row(f"{each.gain:+.1%}", show_seconds(each.answer.step.seconds), each.change)
    return result


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
