"""What a waiting rank costs a process that computes on the same CPU, and what computing processes cost the ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from paceline.bench import bandwidth, row
from paceline.bench.interleave import Work, turns
from paceline.bench.ranks import pattern
from paceline.bench.session import Session
from paceline.bench.systems import System

WAIT_SECONDS = 0.1
_WORK_SECONDS = 0.09
_WAITING, _LATE = 0, 1
SMALL = Work("all_reduce", "float32", "sum", 2)


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """What one system's waiting rank costs.

    time_us: median of the call of the rank that waits; cpu_us: of its process's CPU time in it. loss_percent: median
    over the rounds of the throughput that the computing process loses meanwhile, with its quartiles; below 0 it gained.
    """

    op: str
    algbw_gbps: float
    busbw_gbps: float
    loss_percent: float
    loss_percent_q1: float
    loss_percent_q3: float


@dataclass
class Waited:
    """What was seen of one system, one of each per round: seconds, CPU seconds, share of the throughput lost."""

    session: Session
    algorithm: str
    wrong: int
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)


def busy() -> System:
    """Processes that compute."""
    return System("busy", "numpy", ".busy:Busy")


def cost(
    sessions: Sequence[Session],
    computing: Session,
    cpus: tuple[int, int],
    rounds: int,
    progress: Callable[[str], None],
) -> list[Waited]:
    """Rank 0 of each system in turn waits for rank 1 on the CPU `cpus[0]`, where `computing`'s only rank computes.

    Its throughput alone is measured right before and right after. Raises SessionFailed or Unsupported.
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
    one.session.tell(do="meet", late=_LATE, seconds=WAIT_SECONDS)
    during = _rate(computing)
    reply = one.session.hear("meet")[_WAITING]
    after = _rate(computing)
    one.times.append(reply["seconds"])
    one.cpu.append(reply["cpu_seconds"])
    one.losses.append(1 - during / ((before + after) / 2))


def _rate(computing: Session) -> float:
    return float(computing.ask(do="work", seconds=_WORK_SECONDS)[0]["rate"])


def figures(one: Waited) -> Row:
    """The figures of one system."""
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
