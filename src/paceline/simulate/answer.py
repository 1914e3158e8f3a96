"""What would happen: the step time of a job with an interval, and where its milliseconds go."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import islice
from statistics import quantiles

from paceline.simulate.job import PARTS, Job, Step, mean, steps

WARM_UP = 2
"""Steps that are not counted: the first ones negotiate what later ones know."""
INTERVAL = 90
"""Percent of the simulated steps that lie between `low` and `high`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a job does under one policy."""

    ranks: int
    policy: str
    algorithm: str
    """The plan by which large buffers go."""
    step: Step
    """The mean step."""
    low: float
    """Seconds of a step; 5 % of the simulated steps take less."""
    high: float
    """Seconds of a step; 5 % of the simulated steps take more."""
    alone: float
    """Seconds of a step of one rank, which exchanges nothing."""

    @property
    def efficiency(self) -> float:
        """The throughput per rank as a fraction of one rank's alone (weak scaling)."""
        return self.alone / self.step.seconds

    @property
    def shares(self) -> dict[str, float]:
        """The fraction of the step that each of its parts takes."""
        return {part: getattr(self.step, part) / self.step.seconds for part in PARTS}

    @property
    def row(self) -> dict[str, object]:
        """The answer for programs."""
        return {
            "ranks": self.ranks,
            "policy": self.policy,
            "algorithm": self.algorithm,
            "step_ms": self.step.seconds * 1e3,
            "low_ms": self.low * 1e3,
            "high_ms": self.high * 1e3,
            "efficiency": self.efficiency,
            "shares": self.shares,
            "counts": {name: asdict(self.step)[name] for name in ("cycles", "messages", "batches")},
        }


def answer(job: Job, counted: int = 10, replicas: int = 3) -> Answer:
    """Simulate `replicas` runs of a job with seeds of their own, `counted` steps of each.

    Raises ValueError for a job that makes no sense, or without steps or replicas.
    """
    if counted < 1 or replicas < 1:
        raise ValueError(f"at least 1 step of 1 run must be simulated, not {counted} of {replicas}")
    found = [step for seed in range(replicas) for step in islice(steps(job, seed), WARM_UP, WARM_UP + counted)]
    times = sorted(step.seconds for step in found)
    cuts = quantiles(times, n=20, method="inclusive") if len(times) > 1 else times * 19
    return Answer(
        ranks=len(job.machine_of),
        policy=job.policy,
        algorithm=job.transfer.algorithm,
        step=mean(found),
        low=cuts[0],
        high=cuts[-1],
        alone=_alone(job),
    )


def _alone(job: Job) -> float:
    """The seconds of a step of one rank, delay included, which has nobody to exchange anything with."""
    compute = job.compute
    seconds = sum(compute.samples) / len(compute.samples) if compute.samples else compute.seconds
    return seconds + compute.delay + compute.after
