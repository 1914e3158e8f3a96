"""The networks that a user asks about: a file's, a report's or machines that are alike, with the links that he says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.simulate.calibrate import Measured
from paceline.simulate.links import EXAMPLE, INNER, UPLINK, Asked, changed, doublings, inside, slowest, with_speed
from paceline.simulate.network import between_machines, uniform
from paceline.topology import Link, Topology, read
from paceline.topology.defaults import LOCAL, NETWORK_LATENCY
from paceline.topology.defaults import UPLINK as UPLINK_SPEED
from paceline.topology.tree import NOTHING_SAID
from paceline.topology.units import parse_speed, show_speed

MOST_RANKS = 100_000
"""Ranks that are simulated at most; 24 576 take about 3 GiB."""
_PER_MACHINE = 8
_UPLINK = Link(UPLINK_SPEED, UPLINK_SPEED, NETWORK_LATENCY)
_INNER = "pcie3"
"""The link inside a machine, where nobody says another: the slowest by which devices of today's machines are joined. It
is also about what a rank copies in the memory of a server."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Places:
    """The place where a job runs, as a user says it. "" and None stand for what he did not say.

    file: of a topology. ranks: a number, or low:high for doublings. links: those that he says, in this order.
    """

    file: Path | None = None
    ranks: str = ""
    per_machine: int | None = None
    links: Sequence[Asked] = ()

    def says(self, name: str) -> bool:
        """Return whether the user has said how fast the links of this name are."""
        return any(link.name == name for link in self.links)


def networks(places: Places, run: Measured | None, assumed: list[str]) -> list[Topology]:
    """Return the networks. run: what a report says, None without one. assumed: gets a line for what nobody has said,
    but for links, which know that themselves. Raises ValueError."""
    found = _plain(places, run, assumed)
    for link in places.links:
        if link.name != INNER and not any(map(between_machines, found)):
            raise ValueError(f"--link is about {link.name!r:.60}, but all ranks are on one machine")
        found = [
            with_speed(topology, link.name, speed, link.latency) if speed else topology
            for topology in found
            for speed in (link.speeds if link.name == INNER or between_machines(topology) else (0.0,))
        ]
    return found


def _plain(places: Places, run: Measured | None, assumed: list[str]) -> list[Topology]:
    if places.file is not None:
        topology = read(places.file)
        if places.ranks and places.ranks != str(topology.world):
            raise ValueError(
                f"{places.file} has {topology.world} ranks, but --ranks is {places.ranks:.40}; leave out one"
            )
        return [topology if run is None else _copying(topology, places, run, assumed)]
    if run is None:
        if not places.ranks:
            raise ValueError("say which network: --topology FILE, or --ranks 64 with --per-machine and --link")
        return _anew(places, _counts(places.ranks), assumed)
    own = run.topology
    counts = _counts(places.ranks) if places.ranks else [own.world]
    if counts == [own.world] and places.per_machine is None:
        return [own]
    return _like(places, run, counts, assumed)


def _anew(places: Places, counts: Sequence[int], assumed: list[str]) -> list[Topology]:
    """Machines of which nobody has said anything but numbers."""
    if places.per_machine is None:
        assumed.append(f"{_PER_MACHINE} ranks on each machine (--per-machine)")
    speed = parse_speed(_INNER)
    inner = Link(speed, speed, LOCAL.latency)
    return [_unsaid(uniform(count, places.per_machine or _PER_MACHINE, _UPLINK, inner)) for count in counts]


def _like(places: Places, run: Measured, counts: Sequence[int], assumed: list[str]) -> list[Topology]:
    """The run's own machines, and for other numbers of ranks as many as are needed that are like them."""
    machines = [(len(ranks), node.uplink) for node, ranks in run.topology.machines() if ranks]
    most = max(count for count, _ in machines)
    per_machine = places.per_machine or most
    if places.per_machine is None:
        assumed.append(f"{most} ranks on each machine, as on the report's largest (--per-machine)")
    link = slowest([link for _, link in machines if link is not None])
    if link is None and max(counts) > per_machine and not places.says(UPLINK):
        raise ValueError(
            f"the report is of one machine and says nothing of links between machines, but {max(counts)} ranks with "
            f"{per_machine} to a machine are on several; add --link {EXAMPLE}, or put more on one by --per-machine"
        )
    if link is not None and not places.says(UPLINK):
        speed = show_speed(min(link.up, link.down))
        assumed.append(f"{speed} for each machine's link, as for the report's slowest (--link {UPLINK}=SPEED)")
    found = []
    for count in counts:
        if count == run.topology.world and places.per_machine is None:
            found.append(run.topology)
            continue
        alike = _unsaid(uniform(count, per_machine, link or _UPLINK))
        if link is not None:
            alike = changed(alike, lambda node: replace(node, assumed=()) if node.kind == "machine" else node)
        found.append(_copying(alike, places, run, assumed))
    return found


def _copying(topology: Topology, places: Places, run: Measured, assumed: list[str]) -> Topology:
    """The topology, with links inside machines as fast as the run's ranks copied where nobody says another speed."""
    memory = run.workload.memory
    if memory is None or not memory.copy_rate:
        return topology
    found = inside(topology, memory.rate, unsaid=True)
    if found != topology and not places.says(INNER):
        line = f"links inside machines as fast as the report's ranks copied memory (--link {INNER}=SPEED)"
        assumed += [line] if line not in assumed else []
    return found


def _unsaid(topology: Topology) -> Topology:
    """The topology, with links of which nobody has said anything."""
    return changed(topology, lambda node: replace(node, assumed=NOTHING_SAID) if node.uplink is not None else node)


def _counts(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    try:
        low, high = int(first), int(last if colon else first)
    except ValueError:
        raise ValueError(f"--ranks is {text!r:.40}; write a number such as 64, or a range such as 16:1024") from None
    if not 2 <= low <= high <= MOST_RANKS:
        raise ValueError(f"--ranks is {text!r:.40}; write a number, or a range that rises, from 2 to {MOST_RANKS}")
    return [int(count) for count in doublings(low, high)]
