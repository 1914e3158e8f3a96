"""A user's question, in his words, as scenarios to simulate."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.formats.numbers import in_full
from paceline.formats.sizes import parse_bytes, show_seconds
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
from paceline.simulate.compute import Compute
from paceline.simulate.links import HOST, INNER, asked
from paceline.simulate.models import Gradient
from paceline.simulate.pipeline import pipelined, replicas
from paceline.simulate.scenario import AUTO, Doubt, Scenario
from paceline.simulate.transport import Transport, checked, reached
from paceline.simulate.workload import SHARED, Workload, cores_of
from paceline.topology import Topology

EACH = "all"
"""Stands for every policy, or every algorithm."""
_LATE = 0.02
"""The mean delay of a rank, as a fraction of the step's computation, where nobody says another."""
_MODEL, _SECONDS = "ResNet-50", 0.3
_DTYPES = {"float32": 1.0, "float16": 0.5, "bfloat16": 0.5, "float64": 2.0}
"""The bytes of an element of each dtype, in those of a float32."""
_DOUBT = 2.0
"""The factor by which what is assumed may be off: assumed speeds of links, how late ranks are, and what transfers reach
of links, which is published from 40 % of them on."""
_MICROBATCHES = 4
"""Microbatches for each partition of a pipeline, where nobody says how many: idle times are a fifth of a step then."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A user's question. "" and None stand for what he did not say.

    ranks: a number, or low:high for doublings. links: as `links.asked` takes them. seconds: computation
    of a step. late: seconds by which ranks are late in the mean. strong: whether all ranks share one batch.
    microbatches: into which a rank divides its batch, whose last one makes gradients whole; None for one, or in a
    pipeline for four of each partition. gradients: bytes and tensors, as 340M/200, without a model. dtype: that of a
    model's gradients. efficiency: what transfers reach of links, see `transport.reached`. share: what others leave.
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
    gradients: str = ""
    dtype: str = ""
    efficiency: str = ""
    share: float | None = None


def measured(question: Question) -> Measured | None:
    """Return what the report says; None without one. Raises ValueError and OSError."""
    if question.report is None:
        return None
    if question.model or question.gradients or question.seconds is not None or question.late is not None:
        raise ValueError("--from says what the job computes; leave out --model, --gradients, --step and --late")
    if question.dtype or question.efficiency or any(asked(link).name == HOST for link in question.links):
        raise ValueError(
            f"--from says how gradients travel; leave out --dtype, --link-efficiency and --link {HOST}=SPEED"
        )
    return calibrate(read_report(question.report), str(question.report))


def scenarios(question: Question, run: Measured | None) -> Iterator[Scenario]:
    """Yield what is to be simulated: by networks, then by policies, then by algorithms. Raises ValueError."""
    assumed: list[str] = []
    workload = run.workload if run is not None else _model(question, assumed)
    if not 0 < question.scale < math.inf:
        raise ValueError(f"--scale-compute is {in_full(question.scale)}; it must be above 0 and finite")
    workload = workload.scaled(question.scale)
    workload = pipelined(workload, question.partitions, _microbatches(question, assumed))
    cores_of(question.cores, workload.compute)
    policies = _chosen("--policy", question.policy or workload.policy, (*POLICIES, workload.policy), POLICIES)
    algorithms = _chosen("--algorithm", question.algorithm, (AUTO, *ALGORITHMS), tuple(ALGORITHMS))
    places = Places(
        file=question.topology,
        ranks=question.ranks,
        per_machine=question.per_machine,
        links=tuple(link for link in map(asked, question.links) if link.name != HOST),
    )
    networks = [replicas(each, question.partitions) for each in networks_of(places, run, assumed)]
    workload = replace(workload, transport=_transport(question, run, assumed))
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
                    doubt=_doubt(question, topology),
                )


def _doubt(question: Question, topology: Topology) -> Doubt:
    """Return how far what is assumed may be off. A report has measured how late ranks are, and what transfers reach."""
    if question.report is not None:
        return Doubt()
    speeds = any("speed" in node.assumed for node in topology.root.walk())
    reach = not question.efficiency or question.share is None
    return Doubt(
        transfer=(1 / _DOUBT if speeds else 1.0, _DOUBT if speeds or reach else 1.0),
        delay=(1 / _DOUBT, _DOUBT) if question.late is None else (1.0, 1.0),
    )


def _microbatches(question: Question, assumed: list[str]) -> int:
    if question.microbatches is not None:
        return question.microbatches
    if question.partitions == 1:
        return 1
    assumed.append(f"{_MICROBATCHES * question.partitions} microbatches, four a partition (--microbatches)")
    return _MICROBATCHES * question.partitions


def _transport(question: Question, run: Measured | None, assumed: list[str]) -> Transport:
    hosts = [link for link in map(asked, question.links) if link.name == HOST]
    if any(len(link.speeds) > 1 or link.latency is not None for link in hosts):
        raise ValueError(f"--link {HOST} is one speed, by which gradients are copied, like {HOST}=pcie3")
    share = 1.0 if question.share is None else checked("--link-share", question.share)
    if run is not None:
        return Transport(share=share)
    if not question.efficiency:
        assumed.append("transfers reach all of the links' speed (--link-efficiency)")
    if question.share is None:
        assumed.append("no other job uses these links (--link-share)")
    if not hosts:
        assumed.append(f"the network reads gradients where they are, without copies (--link {HOST}=SPEED)")
    reach = reached(question.efficiency) if question.efficiency else ()
    return Transport(reach, share, hosts[-1].speeds[0] if hosts else math.inf)


def _gradients(question: Question, assumed: list[str]) -> tuple[Gradient, ...]:
    """The model's, or those that the user says, as many float32 as have their bytes."""
    if question.gradients:
        if question.model or question.dtype:
            raise ValueError("--gradients says how many bytes there are; leave out --model and --dtype")
        nbytes, slash, count = question.gradients.partition("/")
        if not slash or not count.strip().isdecimal():
            raise ValueError(f"--gradients is {question.gradients!r:.60}; write bytes and tensors, like 340M/200")
        assumed.append("gradients are equally large, and ready at equal distances in the last two thirds of the step")
        return models.alike(parse_bytes(nbytes), int(count[:9]))
    if not question.model:
        assumed.append(f"the model is {_MODEL} (--model)")
    if not question.dtype:
        assumed.append("gradients are float32 (--dtype)")
    found, dtype = models.model(question.model or _MODEL).gradients, question.dtype or "float32"
    if dtype not in _DTYPES:
        raise ValueError(f"--dtype is {dtype!r:.40}; choose one of {', '.join(_DTYPES)}")
    if dtype != "float32" and question.codec != NONE:
        raise ValueError(f"--codec encodes float32; leave it out for gradients of {dtype}")
    times = _DTYPES[dtype]
    return tuple(replace(each, elements=math.ceil(times * each.elements)) for each in found)


def _model(question: Question, assumed: list[str]) -> Workload:
    seconds, delay = question.seconds, question.late
    gradients = _gradients(question, assumed)
    if seconds is None:
        seconds = _SECONDS
        assumed.append(f"{show_seconds(seconds)} of computation in a step (--step)")
    if delay is None:
        delay = _LATE * seconds
        assumed.append(f"ranks are {show_seconds(delay)} late in the mean, {_LATE:.0%} of the step (--late)")
    return Workload(gradients=gradients, compute=Compute(seconds=seconds, delay=delay))


def _chosen(option: str, asked: str, known: Sequence[str], every: Sequence[str]) -> Sequence[str]:
    if asked == EACH:
        return every
    if asked not in known:
        raise ValueError(f"{option} is {asked!r:.40}; choose one of {', '.join(dict.fromkeys(known))}, or {EACH}")
    return (asked,)
