"""Measures the links between the machines of a group."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple

import numpy as np

from paceline import _engine
from paceline.adapt.measure.unlimited import unlimited
from paceline.adapt.measure.uplinks import uplinks
from paceline.group.group import Group
from paceline.group.host import Host
from paceline.rendezvous import Member
from paceline.topology import Link
from paceline.topology.discover import Placement, RankFacts, by_machine, place
from paceline.topology.infer import Explanation, explain
from paceline.topology.measured import Measured


def links(
    runtime: Host, native: _engine.Group, members: Sequence[Member], timeout: float, switches: bool
) -> tuple[Placement, Measured]:
    """The network between the members' machines as it is now, and what was measured; see `uplinks`.

    Collective over the ranks of `native`. All ranks return the same: rank 0 draws the conclusions for all, because
    processors differ in the last digits of a float. timeout: seconds for each message. switches: whether to look for
    links that several machines share. Raises PeerLost, Timeout or Aborted, as a collective does.
    """
    group = Group(runtime, native, timeout)
    facts = [RankFacts(member.machine, member.host) for member in members]
    with unlimited(native):
        measured = uplinks(group, by_machine(facts), switches)
    found = _read(_broadcast(group, _written(explain(measured)) if group.rank == 0 else ""))
    return place(facts, found.uplinks, found.locals, found.switches), measured


def _written(found: Explanation) -> str:
    switches = [(sorted(below), astuple(link)) for below, link in found.switches]
    return json.dumps([list(map(astuple, found.uplinks)), list(map(astuple, found.locals)), switches])


def _read(text: str) -> Explanation:
    uplinks, locals, switches = json.loads(text)
    return Explanation(
        tuple(Link(*link) for link in uplinks),
        tuple(Link(*link) for link in locals),
        tuple((frozenset(below), Link(*link)) for below, link in switches),
    )


def _broadcast(group: Group, text: str) -> str:
    """The text that rank 0 gives, on every rank."""
    said = np.frombuffer(text.encode(), np.uint8).copy()
    size = np.array([len(said)])
    group.broadcast(size, 0)
    if group.rank:
        said = np.empty(int(size[0]), np.uint8)
    group.broadcast(said, 0)
    return said.tobytes().decode()
