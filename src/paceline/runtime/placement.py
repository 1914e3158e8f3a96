"""Places the ranks of a job in its network, as a topology file says or as they found each other."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

from paceline.errors import RendezvousError
from paceline.observe.networks import Network
from paceline.rendezvous import Member
from paceline.topology import Cpus, Node, Topology
from paceline.topology.discover import Placement, RankFacts, by_machine, discover
from paceline.topology.prune import prune

_NAMED = 8
"""Hosts that an error lists."""


@dataclass(frozen=True, slots=True)
class Given:
    """The topology file that PACELINE_TOPOLOGY names, or the problem with it."""

    path: str
    topology: Topology | None = None
    problem: str = ""

    @property
    def word(self) -> str:
        """The word that other ranks hear about it: a digest, equal for equal topologies, or "!" and the problem."""
        if self.topology is None:
            return f"!{self.problem}"
        return hashlib.sha256(repr(self.topology).encode()).hexdigest()


def given(path: str | None) -> Given | None:
    """Read the file at `path`; None without one. The meeting reports a problem, so that all ranks hear of it."""
    if path is None:
        return None
    from paceline.topology import TopologyError, read

    try:
        return Given(path, read(path))
    except TopologyError as error:
        return Given(path, problem=str(error))


class Placements:
    """The network of a job, and the place of every process in it.

    file: the topology file, None without one. members: the ranks of the job. Raises RendezvousError if the file has a
    problem or does not fit these ranks.
    """

    def __init__(self, file: Given | None, members: Sequence[Member]) -> None:
        if file is None:
            found = discover(_facts(members))
        elif file.topology is None:
            raise RendezvousError(f"PACELINE_TOPOLOGY: {file.problem}")
        else:
            found = _fitted(file.path, file.topology, members)
        self.known = file is not None
        """True if a file describes the links."""
        self.networks: list[Network] = []
        """The networks that plans were made for, from when on, one after the other."""
        self.learn(_on_cpus(found, members), members)

    def learn(self, found: Placement, members: Sequence[Member]) -> None:
        """Take `found` for the network of the job, whose ranks are `members`."""
        self.topology = found.topology
        """The network of the job, its ranks by their places in it."""
        self.networks[-1:] = [Network(time.time_ns(), found.topology)]
        self._place = {members[rank].process: number for number, rank in enumerate(found.ranks)}

    def note(self, changed: Topology) -> None:
        """Note that plans of the job's groups were made again, for this network.

        Plans of further groups are made for the first one, as ranks may note this at different times.
        """
        if changed != self.networks[-1].topology:
            self.networks.append(Network(time.time_ns(), changed))

    def of(self, members: Sequence[Member]) -> Placement:
        """The part of the network with these ranks; for processes from outside the job, what they found."""
        if any(member.process not in self._place for member in members):
            return _on_cpus(discover(_facts(members)), members)
        places = [self._place[member.process] for member in members]
        ranks = tuple(sorted(range(len(members)), key=places.__getitem__))
        if len(members) == self.topology.world:
            return Placement(self.topology, ranks)
        return Placement(prune(self.topology, set(places)), ranks)


def _facts(members: Sequence[Member]) -> list[RankFacts]:
    return [RankFacts(member.machine, member.host, member.speed or None) for member in members]


def _on_cpus(placement: Placement, members: Sequence[Member]) -> Placement:
    """The placement, with the CPUs that the members have on each machine."""
    cpus: dict[str, frozenset[int]] = {}
    for member in members:
        cpus[member.kernel] = cpus.get(member.kernel, frozenset()) | member.affinity
    ranks = iter(placement.ranks)

    def told(node: Node) -> Node:
        if node.kind != "machine":
            return replace(node, children=tuple(map(told, node.children)))
        first, *_ = islice(ranks, node.size)  # ranks that share its memory share its CPUs
        kernel = members[first].kernel
        return replace(node, cpus=Cpus(kernel, len(cpus[kernel])))

    return replace(placement, topology=replace(placement.topology, root=told(placement.topology.root)))


def _fitted(path: str, topology: Topology, members: Sequence[Member]) -> Placement:
    """The place of each rank, by the names of machines if they are those of the hosts, else in the order of ranks.

    A file of a whole cluster serves a job on some of its machines, with some of their ranks, if it names the hosts.
    """
    file = f"PACELINE_TOPOLOGY={path}"
    shared = [(members[ranks[0]].host, ranks) for ranks in by_machine(_facts(members))]
    named = _by_name(topology, [host for host, _ in shared])
    if named is not None and topology.world >= len(members):
        places: dict[int, int] = {}  # the rank of the job, by that of the file
        for (host, ranks), (name, there) in zip(shared, named, strict=True):
            if len(ranks) > len(there):
                raise RendezvousError(f"{file} has {len(there)} ranks on {name}, but {len(ranks)} have met on {host}")
            places.update(zip(there, ranks, strict=False))
        return Placement(_renumbered(prune(topology, places)), tuple(places[place] for place in sorted(places)))
    if topology.world != len(members):
        hosts = ", ".join(sorted({host for host, _ in shared})[:_NAMED])
        raise RendezvousError(
            f"{file} describes {topology.world} ranks, but {len(members)} have met, on {hosts}; a file of more "
            "machines serves a job on some of them if it names them as their hosts are named"
        )
    name_of: dict[str, str] = {}
    for name, theirs in ((node.name, ranks) for node, ranks in topology.machines()):
        first = members[theirs[0]]
        for member in (members[rank] for rank in theirs):
            if member.machine != first.machine:
                raise RendezvousError(f"{file} puts {first} and {member} on {name}, but they share no memory")
        other = name_of.setdefault(first.machine, name)
        if other != name:
            raise RendezvousError(f"{file} puts {first} on {name}, but it shares a machine with the ranks of {other}")
    return Placement(topology, tuple(range(len(members))))


def _by_name(topology: Topology, hosts: Sequence[str]) -> list[tuple[str, Sequence[int]]] | None:
    """The machine of the file with the name of each host, and its ranks there; None unless each has one of its own.

    A name counts up to its first dot if no machine has the whole name.
    """
    machines = {node.name: ranks for node, ranks in topology.machines()}
    short = {name.partition(".")[0]: name for name in machines}
    names = [host if host in machines else short.get(host.partition(".")[0]) for host in hosts]
    if None in names or len(set(names)) < len(names):
        return None
    return [(name, machines[name]) for name in names if name is not None]


def _renumbered(topology: Topology) -> Topology:
    """The topology with its ranks named by their numbers."""
    numbers = count()

    def named(node: Node) -> Node:
        if node.kind == "rank":
            return replace(node, name=f"rank {next(numbers)}")
        return replace(node, children=tuple(map(named, node.children)))

    return replace(topology, root=named(topology.root))
