"""What the network of a topology takes for the messages of a job: message by message, or by the cost model."""

from __future__ import annotations

from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.simulate import programs
from paceline.simulate.job import FUSION_BYTES, Transfer
from paceline.topology import Link, Node, Topology
from paceline.topology.defaults import LOCAL, NETWORK_LATENCY

FOLLOWED_RANKS = 64
"""Ranks up to which all-reduces are followed message by message; the cost model serves larger jobs."""
_FOLLOWED_CHUNKS = 16
"""Chunks of a buffer that are followed at most. The links are then as busy as they will be, and time is a straight line
in the bytes."""
_SIZES = tuple(1 << power for power in range(12, 31, 2))
"""Bytes at which the time of an all-reduce is computed: 4 KiB to 1 GiB."""
_SYNCHRONISED = 64
"""Bytes that a polling policy combines in a cycle: a bit for each of up to 500 tensors."""


def transfer(topology: Topology, algorithm: str | None = None) -> Transfer:
    """Return what all-reduces between the machines of a topology take.

    algorithm: the name of the all-reduce for all sizes; None takes for each size the plan that Paceline would choose.
    Raises ValueError for an unknown algorithm, and for a topology of one machine, whose shared memory nobody models.
    """
    machines = [ranks for _, ranks in topology.machines() if ranks]
    if len(machines) < 2:
        raise ValueError("what is simulated is the network between machines; give a topology of two machines or more")
    network = Network(topology)
    choices = choose("all_reduce", topology, algorithm=algorithm)

    def seconds(nbytes: int) -> float:
        choice = serving(choices, nbytes)
        if topology.world <= FOLLOWED_RANKS:
            return programs.all_reduce(choice, topology, nbytes).seconds
        return cost(choice.outline, network, nbytes).seconds

    most = _FOLLOWED_CHUNKS * choices[-1].chunk if topology.world <= FOLLOWED_RANKS else _SIZES[-1]
    return Transfer(
        all_reduce=tuple((float(nbytes), seconds(nbytes)) for nbytes in _SIZES if nbytes <= most),
        synchronise=seconds(_SYNCHRONISED),
        latency=2 * float(network.latency.max()),
        algorithm=serving(choices, FUSION_BYTES).name,
    )


def machine_of(topology: Topology) -> tuple[int, ...]:
    """Return the number of every rank's machine."""
    return tuple(number for number, (_, ranks) in enumerate(topology.machines()) for _ in ranks)


def uniform(ranks: int, per_machine: int, uplink: float) -> Topology:
    """Return machines of `per_machine` ranks, the last perhaps with fewer, below one switch.

    uplink: bytes per second of a machine's link, each way. Raises ValueError for numbers below 1.
    """
    if ranks < 1 or per_machine < 1:
        raise ValueError(f"there must be at least 1 rank in all and on a machine, not {ranks} and {per_machine}")
    link = Link(uplink, uplink, NETWORK_LATENCY)
    machines = tuple(
        Node(
            "machine",
            f"machine {first // per_machine}",
            link,
            tuple(Node("rank", f"rank {rank}", LOCAL) for rank in range(first, min(ranks, first + per_machine))),
        )
        for first in range(0, ranks, per_machine)
    )
    return Topology(f"{ranks} ranks, {per_machine} to a machine", Node("switch", "switch", None, machines))
