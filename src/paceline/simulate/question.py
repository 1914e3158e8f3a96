"""A user's question, in his words, as scenarios to simulate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.formats.numbers import in_full
from paceline.formats.sizes import show_seconds
from paceline.observe.report import read as read_report
from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.codecs import CODECS
from paceline.settings.names import NONE
from paceline.settings.parsers import POLICIES
from paceline.simulate import models
from paceline.simulate.asked_networks import Places
from paceline.simulate.asked_networks import networks as networks_of
from paceline.simulate.assumptions import of_links
from paceline.simulate.calibrate import Measured, calibrate
from paceline.simulate.job import Compute
from paceline.simulate.links import INNER, asked
from paceline.simulate.pipeline import pipelined, replicas
from paceline.simulate.scenario import AUTO, Scenario
from paceline.simulate.workload import SHARED, Workload, cores_of

EACH = "all"
"""Stands for every policy, or every algorithm."""
_LATE = 0.02
"""The mean delay of a rank, as a fraction of the step's computation, where nobody says another."""
_MODEL, _SECONDS = "ResNet-50", 0.3
_MICROBATCHES = 4
"""Microbatches for each partition of a pipeline, where nobody says how many: idle times are a fifth of a step then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A user's question. "" and None stand for what he did not say.

    ranks: a number, or low:high for doublings. links: as `links.asked` takes them. seconds: computation
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
    assumed: list[str] = []
    workload = run.workload if run is not None else _model(question, assumed)
    if not question.scale > 0:
        raise ValueError(f"--scale-compute is {in_full(question.scale)}; it must be above 0")
    workload = workload.scaled(question.scale)
    workload = pipelined(workload, question.partitions, _microbatches(question, assumed))
    cores_of(question.cores, workload.compute)
    policies = _chosen("--policy", question.policy or workload.policy, (*POLICIES, workload.policy), POLICIES)
    algorithms = _chosen("--algorithm", question.algorithm, (AUTO, *ALGORITHMS), tuple(ALGORITHMS))
    places = Places(
        file=question.topology,
        ranks=question.ranks,
        per_machine=question.per_machine,
        links=tuple(map(asked, question.links)),
    )
    networks = [replicas(each, question.partitions) for each in networks_of(places, run, assumed)]
    if places.says(INNER):  # then the memory of a machine is not what its ranks exchange by
        workload = replace(workload, memory=None)
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
                    assumed=(*assumed, *of_links(topology)),
                )


def _microbatches(question: Question, assumed: list[str]) -> int:
    if question.microbatches is not None:
        return question.microbatches
    if question.partitions == 1:
        return 1
    assumed.append(f"{_MICROBATCHES * question.partitions} microbatches, four a partition (--microbatches)")
    return _MICROBATCHES * question.partitions


def _model(question: Question, assumed: list[str]) -> Workload:
    name, seconds, delay = question.model, question.seconds, question.late
    if not name:
        name = _MODEL
        assumed.append(f"the model is {_MODEL} (--model)")
    network = models.model(name)
    if seconds is None:
        seconds = _SECONDS
        assumed.append(f"{show_seconds(seconds)} of computation in a step (--step)")
    if delay is None:
        delay = _LATE * seconds
        assumed.append(f"ranks are {show_seconds(delay)} late in the mean, {_LATE:.0%} of the step (--late)")
    return Workload(gradients=network.gradients, compute=Compute(seconds=seconds, delay=delay))


def _chosen(option: str, asked: str, known: Sequence[str], every: Sequence[str]) -> Sequence[str]:
    if asked == EACH:
        return every
    if asked not in known:
        raise ValueError(f"{option} is {asked!r:.40}; choose one of {', '.join(dict.fromkeys(known))}, or {EACH}")
    return (asked,)
