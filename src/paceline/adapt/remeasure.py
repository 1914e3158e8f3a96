"""Measuring the links of a group that is at work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline import topology
from paceline.group.group import Group
from paceline.group.host import Host
from paceline.measure.links import measure
from paceline.rendezvous import Member
from paceline.topology.discover import Placement, RankFacts, by_machine
from paceline.topology.infer import infer
from paceline.topology.measured import Load

LONGEST_STREAM = 0.2
"""Seconds for each direction between two machines: the job waits meanwhile."""


def links(home: Host, native: Any, members: Sequence[Member], timeout: float) -> tuple[Placement, Sequence[Load]]:
    """What the links between the members' machines are now, and what was measured when all sent at once.

    Collective, and the same on all ranks: rank 0 concludes, for processors differ in the last digits.
    """
    group = Group(home, native, timeout)
    facts = [RankFacts(member.machine, member.host) for member in members]
    measured = measure(group, by_machine(facts), LONGEST_STREAM)
    text, ranks = "", np.arange(group.size)
    if group.rank == 0:
        found = infer(facts, measured)
        text, ranks = topology.dump(found.topology), np.array(found.ranks)
    group.broadcast(ranks, 0)
    return Placement(topology.parse(_told(group, text), "what rank 0 found"), tuple(ranks.tolist())), measured.loads


def _told(group: Group, text: str) -> str:
    """What rank 0 says, on every rank."""
    said = np.frombuffer(text.encode(), np.uint8).copy()
    size = np.array([len(said)])
    group.broadcast(size, 0)
    if group.rank:
        said = np.empty(int(size[0]), np.uint8)
    group.broadcast(said, 0)
    return said.tobytes().decode()
