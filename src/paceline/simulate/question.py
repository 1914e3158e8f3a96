"""A user's question, in his words, as scenarios to simulate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.formats.numbers import in_full
from paceline.observe.report import read as read_report
from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.codecs import CODECS
from paceline.settings.names import NONE
from paceline.settings.parsers import POLICIES
from paceline.simulate import models
from paceline.simulate.calibrate import Measured, calibrate
from paceline.simulate.job import Compute
from paceline.simulate.network import between_machines, like, uniform, with_speed
from paceline.simulate.pipeline import pipelined, replicas
from paceline.simulate.scenario import AUTO, Scenario
from paceline.simulate.workload import SHARED, Workload, cores_of
from paceline.topology import Link, Topology, read
from paceline.topology.defaults import NETWORK_LATENCY, UPLINK
from paceline.topology.units import parse_speed

EACH = "all"
"""Stands for every policy, or every algorithm."""
MOST_RANKS = 100_000
"""Ranks that are simulated at most; 24 576 take about 3 GiB."""
_LATE = 0.02
"""The mean delay of a rank, as a fraction of the step's computation, where nobody says another."""
_PER_MACHINE = 8
_MICROBATCHES = 4
"""Microbatches for each partition of a pipeline, where nobody says how many: idle times are a fifth of a step then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A user's question. "" and None stand for what he did not say.

    ranks: a number, or low:high for doublings. links: NAME=SPEED, or NAME=LOW:HIGH for doublings. seconds: computation
    of a step. late: seconds by which ranks are late in the mean. strong: whether all ranks share one batch.
    microbatches: into which a rank divides its batch, whose last one makes gradients whole; None for one, or in a
    pipeline for four of each partition.
    """

    report: Path | None = None
    model: str = ""
    seconds: float | None = None
    late: float | None = None
    topology: Path | None = None
    ranks: str = ""
    per_machine: int | None = None
    links: Sequence[str] = ()
    policy: str = ""
    algorithm: str = AUTO
    codec: str = NONE
    cores: str = SHARED
    scale: float = 1.0
    strong: bool = False
    partitions: int = 1
    microbatches: int | None = None


def measured(question: Question) -> Measured | None:
    """Return what the report says; None without one. Raises ValueError and OSError."""
    if question.report is None:
        return None
    if question.model or question.seconds is not None or question.late is not None:
        raise ValueError("--from says what the job computes; leave out --model, --step and --late")
    return calibrate(read_report(question.report), str(question.report))


def scenarios(question: Question, run: Measured | None) -> Iterator[Scenario]:
    """Yield what is to be simulated: by networks, then by policies, then by algorithms. Raises ValueError."""
    workload = run.workload if run is not None else _model(question)
    if not question.scale > 0:
        raise ValueError(f"--scale-compute is {in_full(question.scale)}; it must be above 0")
    workload = workload.scaled(question.scale)
    workload = pipelined(workload, question.partitions, _microbatches(question))
    cores_of(question.cores, workload.compute)
    policies = _chosen("--policy", question.policy or workload.policy, (*POLICIES, workload.policy), POLICIES)
    algorithms = _chosen("--algorithm", question.algorithm, (AUTO, *ALGORITHMS), tuple(ALGORITHMS))
    networks = [replicas(each, question.partitions) for each in _networks(question, run)]
    usual = run.topology.world if run is not None else networks[0].world
    if question.codec not in (NONE, *CODECS):
        raise ValueError(f"--codec is {question.codec!r:.40}; choose one of {NONE}, {', '.join(CODECS)}")
    for topology in networks:
        workload.check(topology)
        for policy in policies:
            for algorithm in algorithms:
                yield Scenario(
                    workload=replace(workload, policy=policy),
                    topology=topology,
                    algorithm=algorithm,
                    codec=question.codec,
                    cores=question.cores,
                    batch=usual / topology.world if question.strong else 1.0,
                    partitions=question.partitions,
                )


def _microbatches(question: Question) -> int:
    if question.microbatches is not None:
        return question.microbatches
    return _MICROBATCHES * question.partitions if question.partitions > 1 else 1


def _model(question: Question) -> Workload:
    network = models.model(question.model or "ResNet-50")
    seconds = 0.3 if question.seconds is None else question.seconds
    delay = _LATE * seconds if question.late is None else question.late
    return Workload(gradients=network.gradients, compute=Compute(seconds=seconds, delay=delay))


def _chosen(option: str, asked: str, known: Sequence[str], every: Sequence[str]) -> Sequence[str]:
    if asked == EACH:
        return every
    if asked not in known:
        raise ValueError(f"{option} is {asked!r:.40}; choose one of {', '.join(dict.fromkeys(known))}, or {EACH}")
    return (asked,)


def _networks(question: Question, run: Measured | None) -> list[Topology]:
    found = _plain_networks(question, run)
    for link in question.links:
        name, equals, speeds = link.rpartition("=")
        if not equals:
            raise ValueError(f"--link is {link!r:.60}; write it like uplink=10Gbit/s")
        if not any(map(between_machines, found)):
            raise ValueError(f"--link is {link!r:.60}, but all ranks are on one machine")
        found = [
            with_speed(topology, name, speed) if between_machines(topology) else topology
            for topology in found
            for speed in (_speeds(speeds) if between_machines(topology) else (0.0,))
        ]
    return found


def _plain_networks(question: Question, run: Measured | None) -> list[Topology]:
    if question.topology is not None:
        topology = read(question.topology)
        if question.ranks and question.ranks != str(topology.world):
            raise ValueError(
                f"{question.topology} has {topology.world} ranks, but --ranks is {question.ranks:.40}; leave out one"
            )
        return [topology]
    if run is not None:
        if not question.ranks and question.per_machine is None:
            return [run.topology]
        per_machine, link = like(run.topology)
    else:
        per_machine, link = _PER_MACHINE, Link(UPLINK, UPLINK, NETWORK_LATENCY)
    per_machine = question.per_machine or per_machine
    if not question.ranks and run is None:
        raise ValueError("say which network: --topology FILE, or --ranks 64 with --per-machine and --link")
    counts = _counts(question.ranks) if question.ranks else [run.topology.world] if run is not None else []
    if run is not None:
        return [
            run.topology
            if count == run.topology.world and question.per_machine is None
            else uniform(count, per_machine, link)
            for count in counts
        ]
    return [uniform(count, per_machine, link) for count in counts]


def _counts(text: str) -> list[int]:
    first, colon, last = text.partition(":")
    try:
        low, high = int(first), int(last if colon else first)
    except ValueError:
        raise ValueError(f"--ranks is {text!r:.40}; write a number such as 64, or a range such as 16:1024") from None
    if not 2 <= low <= high <= MOST_RANKS:
        raise ValueError(f"--ranks is {text!r:.40}; write a number, or a range that rises, from 2 to {MOST_RANKS}")
    return [int(count) for count in _doublings(low, high)]


def _speeds(text: str) -> list[float]:
    first, colon, last = text.partition(":")
    low, high = parse_speed(first), parse_speed(last if colon else first)
    if high < low:
        raise ValueError(f"{text!r:.60} falls; write the lower speed first")
    return _doublings(low, high)


def _doublings(low: float, high: float) -> list[float]:
    """low, twice as much, and so on, up to the last one that is not above `high`; then `high` itself."""
    found = [low]
    while 2 * found[-1] <= high:
        found.append(2 * found[-1])
    return found if found[-1] == high else [*found, high]
