"""Measuring the links of a group that is at work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.check.measure import measure
from paceline.group import Group
from paceline.rendezvous import Member
from paceline.runtime import Runtime
from paceline.topology.discover import Placement, RankFacts, by_machine
from paceline.topology.infer import infer

LONGEST_STREAM = 0.2
"""Seconds for each direction between two machines: the job waits meanwhile."""


def links(home: Runtime, native: Any, members: Sequence[Member], timeout: float) -> Placement:
    """What the links between the members' machines are now. Collective, and the same on all ranks."""
    facts = [RankFacts(member.machine, member.host) for member in members]
    return infer(facts, measure(Group(home, native, timeout), by_machine(facts), LONGEST_STREAM))
