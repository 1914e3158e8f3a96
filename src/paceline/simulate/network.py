"""The time that the network of a topology takes for the messages of a job: message by message, or by the cost model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial

from paceline.plan.choice import Choice, serving
from paceline.plan.choose import choose
from paceline.plan.codecs import CODECS, ENCODED_FROM, Codec
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.settings.names import NONE
from paceline.simulate import programs
from paceline.simulate.job import FUSION_BYTES, Transfer
from paceline.simulate.links import faster
from paceline.simulate.transport import Transport
from paceline.topology import Link, Node, Topology
from paceline.topology.defaults import LOCAL

FOLLOWED_RANKS = 64
"""Ranks up to which all-reduces are followed message by message; the cost model serves larger jobs."""
_FOLLOWED_CHUNKS = 32
"""Chunks of a buffer that are followed at most. The links are then as busy as they will be, and time is a straight line
in the bytes."""
_SIZES = tuple(1 << power for power in range(12, 31, 2))
"""Bytes at which the time of an all-reduce is computed: 4 KiB to 1 GiB."""
_SYNCHRONISED = 64
"""Bytes that a polling policy combines in a cycle: a bit for each of up to 500 tensors."""
_WHOLE = Transport()


def between_machines(topology: Topology) -> bool:
    """Return whether the ranks are on several machines."""
    return sum(len(ranks) > 0 for _, ranks in topology.machines()) > 1


def says_inner(topology: Topology) -> bool:
    """Return whether somebody has said or measured how fast all links inside machines are."""
    return not any("speed" in node.assumed for node in topology.root.walk() if node.kind in ("rank", "socket"))


def transfer(
    topology: Topology, algorithm: str | None = None, codec: str = NONE, transport: Transport = _WHOLE
) -> Transfer:
    """Return what all-reduces between the machines of a topology take.

    algorithm: the name of the all-reduce for all sizes; None takes for each size the plan that Paceline would choose.
    codec: one of the engine's, which encodes what is large enough; what it saves is the cost model's. transport: what
    it reaches of the links between machines is all that there is of them.
    Raises ValueError for an unknown algorithm, and for a topology of one machine, unless somebody has said how fast the
    links inside it are.
    """
    if not between_machines(topology) and not says_inner(topology):
        raise ValueError("what is simulated is the network between machines; give a topology of two machines or more")
    plain = _plain(topology, algorithm, transport)
    if codec != NONE:
        saved = partial(_saved, topology, algorithm, CODECS[codec], transport)
        plain = replace(plain, all_reduce=tuple((nbytes, saved(nbytes) * took) for nbytes, took in plain.all_reduce))
    return transport.copied(plain)


def reached(topology: Topology, fraction: float) -> Topology:
    """Return the topology of which the links between machines carry a fraction."""
    return topology if fraction == 1 else faster(topology, fraction)


@lru_cache(maxsize=32)
def choices_of(topology: Topology, algorithm: str | None) -> Sequence[Choice]:
    """Return the plans of all-reduces, by rising limit; `algorithm` as in `transfer`."""
    return choose("all_reduce", topology, algorithm=algorithm)


def _saved(topology: Topology, algorithm: str | None, codec: Codec, transport: Transport, nbytes: float) -> float:
    """The fraction of its time that an all-reduce takes with a codec, by the cost model."""
    if nbytes < ENCODED_FROM:
        return 1.0
    topology = reached(topology, transport.fraction(nbytes))
    outline, network = serving(choices_of(topology, algorithm), int(nbytes)).outline, Network(topology)
    return cost(outline, network, int(nbytes), codec=codec).seconds / cost(outline, network, int(nbytes)).seconds


@lru_cache(maxsize=8)
def _plain(topology: Topology, algorithm: str | None, transport: Transport) -> Transfer:
    """Return all-reduces' times without a codec. Following their messages takes seconds where there are many ranks."""
    follow = topology.world <= FOLLOWED_RANKS and between_machines(topology)
    known: dict[float, tuple[Topology, Network, Sequence[Choice]]] = {}

    def seconds(nbytes: int) -> float:
        fraction = transport.fraction(nbytes)
        if fraction not in known:
            here = reached(topology, fraction)
            known[fraction] = here, Network(here), choices_of(here, algorithm)
        here, network, choices = known[fraction]
        choice = serving(choices, nbytes)
        if follow:
            return programs.all_reduce(choice, here, nbytes).seconds
        return cost(choice.outline, network, nbytes).seconds

    sizes, choices = list(_SIZES), choices_of(topology, algorithm)
    if follow:
        most = _FOLLOWED_CHUNKS * choices[-1].chunk
        sizes = [*(nbytes for nbytes in _SIZES if 2 * nbytes < most), most // 2, most]
    return Transfer(
        all_reduce=tuple((float(nbytes), seconds(nbytes)) for nbytes in sizes),
        synchronise=seconds(_SYNCHRONISED),
        latency=2 * float(Network(topology).latency.max()),
        algorithm=serving(choices, FUSION_BYTES).name,
    )


def machine_of(topology: Topology) -> tuple[int, ...]:
    """Return the number of every rank's machine."""
    return tuple(number for number, (_, ranks) in enumerate(topology.machines()) for _ in ranks)


def uniform(ranks: int, per_machine: int, link: Link, inner: Link = LOCAL) -> Topology:
    """Return machines of `per_machine` ranks, the last perhaps with fewer, below one switch.

    link: that of each machine. inner: that of each rank inside its machine.
    Raises ValueError for numbers below 1.
    """
    if ranks < 1 or per_machine < 1:
        raise ValueError(f"there must be at least 1 rank in all and on a machine, not {ranks} and {per_machine}")
    machines = tuple(
        Node(
            "machine",
            f"machine {first // per_machine}",
            link,
            tuple(Node("rank", f"rank {rank}", inner) for rank in range(first, min(ranks, first + per_machine))),
        )
        for first in range(0, ranks, per_machine)
    )
    return Topology(f"{ranks} ranks, {per_machine} to a machine", Node("switch", "switch", None, machines))
