"""A training job in virtual time: what is known of it, and its steps. All times are seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, fields, replace

import numpy as np

from paceline import _engine
from paceline.simulate.compute import Compute
from paceline.simulate.models import Gradient

FUSION_BYTES = 64 << 20
"""Bytes of a fusion buffer at most, as Horovod's default."""
CYCLE_SECONDS = 5e-3
"""Seconds of a cycle of the polling policies, as Horovod's default."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """The CPUs of a rank, and the threads that want them (engine/simulate/cores.hpp says by which rules).

    While all CPUs are busy, the thread that runs the policy oversleeps unless it has slept long, and a spinning one
    makes the delays of the program longer, by up to twice.
    """

    cpus: int = 0
    """0 stands for as many as all threads want."""
    threads: int = 0
    """Threads of the rank's program: those that compute or feed a device, and those that prepare input."""
    seconds: float = 0.0
    """Seconds of a step, from its beginning on, for which all of them have work."""
    divided: bool = False
    """True if the thread that runs the policy has a CPU of its own (SCP of the paper that the header names)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """The time that a policy's thread takes, beside its CPU (see `Cores`).

    A sleep lasts too long by `wake`, or, with the probability `oversleeps`, by an exponential time with the mean
    `oversleep`.
    """

    wake: float = 60e-6
    """Seconds: the usual slack of a sleep on Linux is 50 us, and waking up takes a few."""
    oversleeps: float = 0.0
    oversleep: float = 0.0
    ring: float = 28e-6
    """Seconds until a rank on the same machine has heard a bell: a futex across CPUs takes 28 to 32 us."""
    message: float = 2e-6
    """Seconds of the thread's own time for a message between machines, at either end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Transfer:
    """The times that the network takes."""

    all_reduce: tuple[tuple[float, float], ...]
    """(bytes, seconds), ascending in bytes; straight lines between them, and beyond the last two."""
    synchronise: float
    """Seconds of a policy's small all-reduce, from the last rank's part on."""
    latency: float
    """Seconds that a message between machines travels."""
    algorithm: str = "given"
    """The name of the plan by which large buffers go; `given` where their times are all that is known."""

    def seconds(self, nbytes: float) -> float:
        """Return the seconds of an all-reduce of so many bytes."""
        sizes, times = zip(*self.all_reduce, strict=True)
        if len(sizes) > 1 and nbytes > sizes[-1]:
            slope = (times[-1] - times[-2]) / (sizes[-1] - sizes[-2])
            return float(times[-1] + slope * (nbytes - sizes[-1]))
        return float(np.interp(nbytes, sizes, times))

    def slower(self, factor: float) -> Transfer:
        """Return a network on which everything takes `factor` times as long."""
        return replace(
            self,
            all_reduce=tuple((nbytes, factor * seconds) for nbytes, seconds in self.all_reduce),
            synchronise=factor * self.synchronise,
            latency=factor * self.latency,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A training job.

    policy: board, graph, cycle, global_sleep or nonblocking. order: for `graph`, the names of each fusion buffer in the
    order of issue. waits: how a rank waits in a blocking synchronisation, spin or yield. awaits: whether the program
    waits for its gradients once it has submitted all of them.
    """

    machine_of: Sequence[int]
    """The number of every rank's machine."""
    gradients: tuple[Gradient, ...]
    policy: str
    compute: Compute
    transfer: Transfer
    thread: Thread = field(default_factory=Thread)
    cores: Cores = field(default_factory=Cores)
    fusion_bytes: int = FUSION_BYTES
    cycle_seconds: float = CYCLE_SECONDS
    waits: str = "spin"
    awaits: bool = True
    order: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """One step of all ranks.

    All seconds but `seconds`, `spinning` and `oversleep` are parts of the step, as means over ranks, and add up to it.
    """

    seconds: float
    computation: float
    """Without the delay."""
    delay: float
    """Until the rank has submitted its last gradient."""
    last_rank: float
    """From there until all ranks have submitted theirs, unless the last batch goes out before."""
    negotiation: float
    """From there until this rank issues the last batch, while no batch is under way."""
    peers: float
    """From there until the last batch begins, because other ranks issue it later; while no batch is under way."""
    transfer: float
    """The transfer of the last batch, and of earlier ones once all ranks have submitted everything."""
    after: float
    """Until the next step."""
    spinning: float
    """At any time of the step, of the thread that runs the policy."""
    oversleep: float
    """At any time of the step, beyond the sleep that was asked for."""
    cycles: float
    """Cycles of all ranks' policies."""
    messages: float
    """Messages between ranks."""
    batches: float


PARTS = ("computation", "delay", "last_rank", "negotiation", "peers", "transfer", "after")
"""The parts of a step, in order."""


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch that was carried out, with seconds since its step began."""

    issued: float
    """The first rank issued it."""
    begun: float
    """All ranks had issued it, and the one before it was over."""
    over: float
    nbytes: int
    requests: int


@dataclass(frozen=True, slots=True)
class Moments:
    """The times of one step's events, in seconds since it began."""

    ready: tuple[float, ...]
    """By rank: it had submitted its last gradient."""
    batches: tuple[Batch, ...]
    """In the order in which they were carried out."""


def steps(job: Job, seed: int = 0) -> Iterator[Step]:
    """Yield the steps of a job, for ever; the first ones negotiate what is not known yet.

    The same job and seed give the same steps, and two policies with the same seed meet the same delays. Raises
    ValueError for a job that makes no sense.
    """
    running = _running(job, seed)
    while True:
        yield Step(**running.step())


def moments(job: Job, step: int, seed: int = 0) -> Moments:
    """Return what happened in a step of a job, which are counted from 0. Raises ValueError as `steps`."""
    running = _running(job, seed)
    for _ in range(step + 1):
        running.step()
    began, ready, batches = running.timeline()
    return Moments(
        tuple(moment - began for moment in ready),
        tuple(
            Batch(first - began, begun - began, over - began, nbytes, requests)
            for first, begun, over, nbytes, requests in batches
        ),
    )


def _running(job: Job, seed: int) -> _engine.Job:
    return _engine.Job(
        machine_of=job.machine_of,
        policy=job.policy,
        order=job.order,
        awaits=job.awaits,
        seed=seed,
        gradients=[astuple(each) for each in job.gradients],
        options=(job.fusion_bytes, job.cycle_seconds, job.waits),
        compute=job.compute.fields,
        cores=astuple(job.cores),
        thread=astuple(job.thread),
        transfer=(job.transfer.synchronise, job.transfer.latency, job.transfer.all_reduce),
    )


def mean(several: Sequence[Step]) -> Step:
    """Return the mean of every figure. Raises ValueError if there are none."""
    if not several:
        raise ValueError("there are no steps to take the mean of")
    return Step(**{each.name: sum(getattr(s, each.name) for s in several) / len(several) for each in fields(Step)})


def buffers(gradients: Sequence[Gradient], most: int) -> tuple[tuple[str, ...], ...]:
    """Return an order for `graph`, in which runs of gradients, as they become ready, share buffers of `most` bytes."""
    found: list[list[str]] = []
    room = 0
    for gradient in sorted(gradients, key=lambda each: each.ready):
        if not found or gradient.nbytes > room:
            found.append([])
            room = most
        found[-1].append(gradient.name)
        room -= gradient.nbytes
    return tuple(map(tuple, found))


def in_order(job: Job, most: int | None = None) -> Job:
    """Return the job with the order of `buffers` of at most `most` bytes (default: those of a fusion buffer)."""
    return replace(job, order=buffers(job.gradients, job.fusion_bytes if most is None else most))
