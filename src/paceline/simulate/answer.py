"""The predicted step time of a job with an interval, and where its milliseconds go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from statistics import quantiles

from paceline.simulate.job import PARTS, Job, Step, mean, steps

WARM_UP = 2
"""Steps that are not counted: the first ones negotiate what later ones know."""
INTERVAL = 90
"""Percent of the simulated steps that lie between `low` and `high`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The behaviour of a job under one policy with one algorithm."""

    ranks: int
    policy: str
    algorithm: str
    """The plan by which large buffers go."""
    step: Step
    """The mean step."""
    times: tuple[float, ...]
    """Seconds of every simulated step, ascending."""
    alone: float
    """Seconds of a step of one rank, which exchanges nothing."""
    network: str = ""
    """The name of the network."""
    batch: float = 1.0
    """The batch of a rank or replica in a step, where 1 is the usual one; smaller where more share the whole."""
    partitions: int = 1
    """The partitions of each replica, whose ranks then work as one."""
    doubt: tuple[float, float] = (1.0, 1.0)
    """Factors by which the mean step would be shorter and longer if what is assumed of the job were otherwise."""

    @property
    def low(self) -> float:
        """Seconds of a step; 5 % of the simulated steps take less, by the best that what is assumed may be."""
        return self.doubt[0] * self._cut(5)

    @property
    def median(self) -> float:
        """Seconds of a step; half of the simulated steps take less."""
        return self._cut(50)

    @property
    def high(self) -> float:
        """Seconds of a step; 5 % of the simulated steps take more, by the worst that what is assumed may be."""
        return self.doubt[1] * self._cut(95)

    @property
    def efficiency(self) -> float:
        """The throughput of a rank or replica as a fraction of that of one which exchanges nothing."""
        return self.alone / self.step.seconds

    @property
    def throughput(self) -> float:
        """Batches, of a rank or replica each, that all together finish in a second."""
        return self.ranks / self.partitions * self.batch / self.step.seconds

    @property
    def shares(self) -> dict[str, float]:
        """The fraction of the step that each of its parts takes."""
        return {part: getattr(self.step, part) / self.step.seconds for part in PARTS}

    @property
    def row(self) -> dict[str, object]:
        """The answer for programs."""
        return {
            "ranks": self.ranks,
            "partitions": self.partitions,
            "policy": self.policy,
            "algorithm": self.algorithm,
            "network": self.network,
            "step_ms": self.step.seconds * 1e3,
            "low_ms": self.low * 1e3,
            "high_ms": self.high * 1e3,
            "efficiency": self.efficiency,
            "throughput": self.throughput,
            "shares": self.shares,
            "counts": {name: asdict(self.step)[name] for name in ("cycles", "messages", "batches")},
        }

    def _cut(self, percent: int) -> float:
        if len(self.times) == 1:
            return self.times[0]
        return quantiles(self.times, n=100, method="inclusive")[percent - 1]


def answer(
    job: Job,
    counted: int = 10,
    replicas: int = 3,
    *,
    carries: Sequence[float] = (1.0,),
    policy: str = "",
    network: str = "",
    batch: float = 1.0,
    partitions: int = 1,
) -> Answer:
    """Simulate `replicas` runs of a job with seeds of their own, `counted` steps of each.

    carries: how many times as long as predicted exchanges may take; the runs take their factors from all over them.
    policy, network: what the answer calls them, the former if not as the job does. partitions: those that each of the
    job's ranks stands for.

    Raises ValueError for a job that makes no sense, or
    without steps or replicas.
    """
    if counted < 1 or replicas < 1:
        raise ValueError(f"at least 1 step of 1 run must be simulated, not {counted} of {replicas}")
    ordered = sorted(carries)
    found: list[Step] = []
    for seed in range(replicas):
        factor = ordered[(2 * seed + 1) * len(ordered) // (2 * replicas)]
        run = replace(job, transfer=job.transfer.slower(factor))
        found += islice(steps(run, seed), WARM_UP, WARM_UP + counted)
    return Answer(
        ranks=len(job.machine_of) * partitions,
        policy=policy or job.policy,
        algorithm=job.transfer.algorithm,
        step=mean(found),
        times=tuple(sorted(step.seconds for step in found)),
        alone=_alone(job),
        network=network,
        batch=batch,
        partitions=partitions,
    )


def _alone(job: Job) -> float:
    """The seconds of a step of one rank, delay included, which has nobody to exchange anything with."""
    return job.compute.mean + job.compute.delay + job.compute.after
