"""The cost of a waiting rank to a process that computes on the same CPU, and of computing processes to the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline_bench import bandwidth, row
from paceline_bench.interleave import Work, turns
from paceline_bench.ranks import pattern
from paceline_bench.session import Session
from paceline_bench.systems import System
from paceline_bench.table import column

WAIT_SECONDS = 0.1
"""Seconds that the waiting rank waits."""
_WORK_SECONDS = 0.09
"""Seconds of computation whose rate is measured."""
_WAITING, _LATE = 0, 1
SMALL = Work("all_reduce", "float32", "sum", 2)


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """The cost of one system's waiting rank.

    time_us: median time of the waiting rank's call. cpu_us: median CPU time of its process in that call. loss_percent:
    median over the rounds of the throughput that the computing process loses meanwhile, with quartiles; a negative
    value is a gain.
    """

    time_us: float = field(metadata=column("wait(ms)", "{:.1f}", unit=1e3))
    cpu_us: float = field(metadata=column("cpu(us)", "{:.0f}"))
    op: str
    algbw_gbps: float
    busbw_gbps: float
    loss_percent: float = field(metadata=column("loss", "{:.1f} %"))
    loss_percent_q1: float = field(metadata=column("quartiles", "{:.1f}–{:.1f} %", "loss_percent_q3"))
    loss_percent_q3: float


@dataclass
class Waited:
    """The measurements of one system, one of each per round: seconds, CPU seconds, share of the throughput lost."""

    session: Session
    algorithm: str
    wrong: int
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def busy() -> System:
    """Return processes that compute."""
    return System("busy", "numpy", ".busy:Busy")


def cost(
    sessions: Sequence[Session],
    computing: Session,
    cpus: tuple[int, int],
    rounds: int,
    progress: Callable[[str], None],
) -> list[Waited]:
    """Let rank 0 of each system in turn wait for rank 1 on the CPU `cpus[0]`, where the only rank of `computing`
    computes.

    Its throughput without a waiting rank is measured right before and after. Raises SessionFailed or Unsupported.
    """
    computing.ask(do="pin", cpus=[cpus[0]])
    found = []
    for session in sessions:
        session.ask(do="pin", cpus=list(cpus))
        session.ask(do="prepare", **vars(SMALL))
        replies = session.ask(do="verify", seeds=[1, 2])
        wrong = sum(int(reply["wrong"]) for reply in replies)
        found.append(Waited(session, str(replies[0]["algorithm"]), wrong))
    for number in range(rounds):
        progress(f"waiting, round {number + 1} of {rounds}")
        for one in turns(found, number):
            _wait_once(one, computing)
    return found


def _wait_once(one: Waited, computing: Session) -> None:
    before = _rate(computing)
    one.session.send(do="meet", late=_LATE, seconds=WAIT_SECONDS)
    during = _rate(computing)
    reply = one.session.receive("meet")[_WAITING]
    after = _rate(computing)
    one.times.append(reply["seconds"])
    one.cpu.append(reply["cpu_seconds"])
    one.losses.append(1 - during / ((before + after) / 2))


def _rate(computing: Session) -> float:
    return float(computing.ask(do="work", seconds=_WORK_SECONDS)[0]["rate"])


def figures(one: Waited) -> Row:
    """Return the row of one system."""
    system, seconds = one.session.system, median(one.times)
    size = SMALL.elements * pattern.storage(SMALL.dtype).itemsize
    speed = bandwidth.algorithm_bandwidth(size, seconds)
    first, middle, third = (100 * loss for loss in quantiles(one.losses, n=4, method="inclusive"))
    return Row(
        collective=SMALL.collective,
        algorithm=one.algorithm,
        system=system.name,
        path=system.path,
        dtype=SMALL.dtype,
        op=SMALL.op,
        bytes=size,
        ranks=one.session.ranks,
        buffer=system.buffer,
        time_us=round(seconds * 1e6, 1),
        cpu_us=round(median(one.cpu) * 1e6, 1),
        algbw_gbps=round(speed, 9),
        busbw_gbps=round(speed * bandwidth.bus_factor(SMALL.collective, one.session.ranks), 9),
        loss_percent=round(middle, 2),
        loss_percent_q1=round(first, 2),
        loss_percent_q3=round(third, 2),
        wrong=one.wrong,
        iterations=len(one.times),
    )
