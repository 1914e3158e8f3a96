"""The work of a job, wherever it runs: its gradients, its computation, its policy. With a network it is a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from paceline.calibration.coordinate import GRAPH_BYTES
from paceline.settings.names import NONE
from paceline.simulate.compute import Compute
from paceline.simulate.job import CYCLE_SECONDS, FUSION_BYTES, Cores, Job, Thread, Transfer, in_order
from paceline.simulate.links import INNER
from paceline.simulate.models import Gradient
from paceline.simulate.network import between_machines, machine_of, says_inner, transfer
from paceline.simulate.transport import Transport
from paceline.topology import Topology

IN_ORDER = "none"
"""The policy of programs such as DDP, which issue their calls in one order themselves, so that nobody negotiates."""
SHARED, DIVIDED = "shared", "divided"
"""The places of the thread that runs the policy: on the cores of the computation, or on one of its own."""
_COUNTED = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})", re.ASCII)
"""CPUs of a rank, and threads of its program."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of a machine: bytes per second that each of `ranks` ranks copies while all of them do."""

    copy_rate: float
    ranks: int

    def rate(self, ranks: int) -> float:
        """Return what each of so many ranks copies. Those beyond the measured ones share the memory."""
        return self.copy_rate * min(1.0, self.ranks / ranks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Workload:
    """The work of a job, wherever it runs.

    carries: how many times as long as the cost model says exchanges took, in each of a run's steps; empty if nobody
    knows. memory: that of its machines, None if nobody knows. transport: what is between gradients and links.
    """

    gradients: tuple[Gradient, ...]
    compute: Compute
    policy: str = "board"
    thread: Thread = field(default_factory=Thread)
    carries: tuple[float, ...] = ()
    memory: Memory | None = None
    transport: Transport = field(default_factory=Transport)
    fusion_bytes: int = FUSION_BYTES
    cycle_seconds: float = CYCLE_SECONDS

    @property
    def nbytes(self) -> int:
        """Bytes of all gradients, as float32."""
        return sum(gradient.nbytes for gradient in self.gradients)

    def on(self, topology: Topology, algorithm: str | None = None, codec: str = NONE, cores: str = SHARED) -> Job:
        """Return the job on this network. algorithm: that of all-reduces, None for the cheapest. codec: theirs.

        cores: as `cores_of` takes them.

        Raises ValueError for a topology of one machine if nothing is known of its memory, and for unknown algorithms
        and cores.
        """
        self.check(topology)
        if self.memory is not None and not between_machines(topology):
            network = self.transport.copied(_shared(self.memory, topology.world))
        else:
            network = transfer(topology, algorithm, codec, self.transport)
        shared = cores_of(cores, self.compute)
        job = Job(
            machine_of=machine_of(topology),
            gradients=self.gradients,
            policy="graph" if self.policy == IN_ORDER else self.policy,
            compute=self.compute.on(topology.world),
            transfer=network,
            thread=replace(self.thread, oversleeps=0.0) if shared.divided else self.thread,
            cores=shared,
            fusion_bytes=self.fusion_bytes,
            cycle_seconds=self.cycle_seconds,
        )
        if self.policy == IN_ORDER:
            return replace(job, order=tuple((gradient.name,) for gradient in _by_time(self.gradients)))
        return in_order(job, min(self.fusion_bytes, GRAPH_BYTES))

    def check(self, topology: Topology) -> None:
        """Raise ValueError for a topology of one machine if nothing is known of its memory or the links inside it."""
        if self.memory is None and not between_machines(topology) and not says_inner(topology):
            raise ValueError(
                "this topology is one machine, and only a report says how fast a machine's memory is; give a topology "
                f"of two machines or more, or say how fast the links inside it are: --link {INNER}=pcie4"
            )

    def carried(self, topology: Topology) -> tuple[float, ...]:
        """Return how many times as long as predicted exchanges on this network may take: what runs have shown."""
        return self.carries if self.carries and between_machines(topology) else (1.0,)

    def scaled(self, factor: float) -> Workload:
        """Return the workload with `factor` times as much computation."""
        return replace(self, compute=self.compute.scaled(factor))


def cores_of(text: str, compute: Compute) -> Cores:
    """Return the CPUs of a rank as a user says them.

    `shared` stands for as many as threads want, `divided` for one more of the engine's own, and 4/6 for 4 CPUs and 6
    threads of the program, which want to run while it computes. Raises ValueError for anything else.
    """
    if text in (SHARED, DIVIDED):
        return Cores(divided=text == DIVIDED)
    counted = _COUNTED.fullmatch(text)
    if counted is None:
        raise ValueError(
            f"--cores is {text!r:.40}; choose one of {SHARED}, {DIVIDED}, or give a rank's CPUs and threads, as in 4/6"
        )
    return Cores(cpus=int(counted[1]), threads=int(counted[2]), seconds=compute.mean)


def _by_time(gradients: Sequence[Gradient]) -> list[Gradient]:
    return sorted(gradients, key=lambda gradient: gradient.ready)


def _shared(memory: Memory, ranks: int) -> Transfer:
    """All-reduces in the memory of one machine.

    Each rank reads one block of all copies and writes the sum, and then copies the others' blocks, as the engine does
    (engine/shared). A copy reads and writes as many bytes.
    """
    passes = 1 + 1 / ranks + 2 * (ranks - 1) / ranks
    rate = memory.rate(ranks)
    hop = 2 * Thread().ring
    return Transfer(
        all_reduce=((0.0, hop), (float(1 << 30), hop + (1 << 30) * passes / 2 / rate)),
        synchronise=hop,
        latency=hop,
        algorithm="shared_memory",
    )
