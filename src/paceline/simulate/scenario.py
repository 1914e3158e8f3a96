"""One thing to simulate: a workload on a network, with an algorithm, a codec, and cores as a user may choose them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from paceline.formats.sizes import show_bytes
from paceline.settings.names import NONE
from paceline.settings.parsers import POLICIES
from paceline.simulate.answer import WARM_UP, Answer, answer
from paceline.simulate.goal import schedule
from paceline.simulate.job import Job, Moments, moments
from paceline.simulate.links import faster
from paceline.simulate.network import between_machines
from paceline.simulate.regrouping import regrouped
from paceline.simulate.workload import DIVIDED, IN_ORDER, SHARED, Workload
from paceline.topology import Topology

AUTO = "auto"
"""The algorithm that Paceline chooses for each size."""
_CODECS = ("bf16", "int8")
"""Codecs worth a thought: the one that needs no care, and a strong one."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The assumptions on a job, as the factors between which the truth may lie: of what its exchanges take, and of how
    late its ranks are."""

    transfer: tuple[float, float] = (1.0, 1.0)
    delay: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A workload on a network.

    batch: that of a rank in a step, where 1 is the usual one. partitions: those that each rank stands for. assumed: a
    sentence for each thing that nobody has said. doubt: how far what is assumed may be off.
    """

    workload: Workload
    topology: Topology
    algorithm: str = AUTO
    codec: str = NONE
    cores: str = SHARED
    batch: float = 1.0
    partitions: int = 1
    assumed: tuple[str, ...] = ()
    doubt: Doubt = Doubt()

    def answer(self, counted: int, replicas: int) -> Answer:
        """Simulate it; see `paceline.simulate.answer`. Raises ValueError for what makes no sense.

        What is assumed is also simulated at either end of what it may be, in one run each, which tells by how much the
        interval is wider.
        """
        found = self._answer(self._job(), counted, replicas)
        if self.doubt == Doubt():
            return found
        usual, best, worst = (self._bent(end, counted).step.seconds for end in (None, 0, 1))
        return replace(found, doubt=(min(1.0, best / usual), max(1.0, worst / usual)))

    def _bent(self, end: int | None, counted: int) -> Answer:
        """The answer of one run with what is assumed at its lower or upper end, or as it is."""
        job = self._job()
        if end is not None:
            compute = replace(job.compute, delay=self.doubt.delay[end] * job.compute.delay)
            job = replace(job, transfer=job.transfer.slower(self.doubt.transfer[end]), compute=compute)
        return self._answer(job, counted, 1)

    def _answer(self, job: Job, counted: int, replicas: int) -> Answer:
        return answer(
            job,
            counted,
            replicas,
            carries=self.workload.carried(self.topology),
            policy=self.workload.policy,
            network=self.topology.name,
            batch=self.batch,
            partitions=self.partitions,
        )

    def moments(self) -> Moments:
        """Return what happens in one of its steps, when everything takes what it usually does."""
        job = self._job()
        usual = median(self.workload.carried(self.topology))
        return moments(replace(job, transfer=job.transfer.slower(usual)), WARM_UP)

    def goal(self) -> Iterator[str]:
        """Yield the lines of the same step as a GOAL schedule. Raises ValueError with a codec, and as `schedule`."""
        if self.codec != NONE:
            raise ValueError(f"a GOAL schedule has the messages of plain data; leave out the codec {self.codec}")
        yield from schedule(self.moments(), self.topology, self.plan)

    @property
    def plan(self) -> str | None:
        """The name of the all-reduce; None for the cheapest of each size."""
        return None if self.algorithm == AUTO else self.algorithm

    def _job(self) -> Job:
        return self.workload.scaled(self.batch).on(self.topology, self.plan, self.codec, self.cores)


@dataclass(frozen=True, slots=True)
class Advice:
    """A change that a user could make, and what it would give."""

    change: str
    answer: Answer
    gain: float
    """The throughput that it adds, as a fraction of what there is."""


def advice(scenario: Scenario, counted: int, replicas: int) -> Iterator[Advice]:
    """Try changes that a user could make to a scenario, one at a time, in no order. Raises ValueError as `answer`."""
    now = replace(scenario, doubt=Doubt()).answer(counted, replicas)
    for change, changed in changes(scenario):
        then = changed.answer(counted, replicas)
        yield Advice(change, then, now.step.seconds / then.step.seconds - 1)


def changes(scenario: Scenario) -> Iterator[tuple[str, Scenario]]:
    """Yield what a user could change, in words, and the scenario that it would be."""
    scenario = replace(scenario, doubt=Doubt())  # a change is compared with what is, by what is assumed of both
    workload, topology = scenario.workload, scenario.topology
    if workload.policy != IN_ORDER:
        for policy in POLICIES:
            if policy != workload.policy:
                yield f"policy {policy}", replace(scenario, workload=replace(workload, policy=policy))
        for size in (workload.fusion_bytes // 4, workload.fusion_bytes * 4):
            if size < 2 * workload.nbytes:
                yield f"fusion of {show_bytes(size)}", replace(scenario, workload=replace(workload, fusion_bytes=size))
    if scenario.cores != DIVIDED:
        yield "a core of its own for the engine's thread", replace(scenario, cores=DIVIDED)
    if not between_machines(topology):
        return
    if scenario.algorithm != AUTO:
        yield "the algorithm that Paceline chooses", replace(scenario, algorithm=AUTO)
    if scenario.codec == NONE:
        for codec in _CODECS:
            yield f"codec {codec} between machines", replace(scenario, codec=codec)
    yield "links of twice the speed", replace(scenario, topology=faster(topology, 2.0))
    for count in (2.0, 0.5):
        if (grouped := regrouped(topology, count)) is not None:
            most = max(len(ranks) for _, ranks in grouped.machines())
            yield f"{most} rank{'s' if most > 1 else ''} on each machine", replace(scenario, topology=grouped)
