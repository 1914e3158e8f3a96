"""The measurement: in every round each system gets a burst of calls while all others are blocked and idle."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from paceline.lab.lab import Traffic
from paceline_bench.ranks.wire import Message
from paceline_bench.session import SessionFailed, Unsupported
from paceline_bench.systems import System

_LEAST_ROUNDS = 3
"""The fewest rounds of a measurement, even if time is up."""
_MOST_CALLS = 20_000
"""The most calls of a burst."""
_OFF = 4
"""The factor by which a burst may be longer or shorter than intended before its calls are counted again."""
_SEEDS_BEFORE, _SEEDS_AFTER = [1, 2], [3]


@dataclass(frozen=True)
class Effort:
    """The extent of one size's measurement.

    rounds: the most bursts per system. seconds: the time for one size, all systems together; at least three rounds are
    made. burst: the intended length of a burst in seconds. calls: the number of calls of a burst; None lets it follow
    from `burst`.
    """

    rounds: int = 11
    seconds: float = 6.0
    burst: float = 0.04
    calls: int | None = None


class Session(Protocol):
    """A system under test, driven by orders and idle in between."""

    @property
    def system(self) -> System:
        """The system that is measured."""

    @property
    def ranks(self) -> int:
        """The number of its ranks."""

    def ask(self, **order: object) -> list[Message]:
        """Give all ranks an order and return their answers by rank. Raises SessionFailed or Unsupported."""

    def stop(self, gently: bool = True) -> None:
        """End all ranks; `gently` lets them end by themselves first."""


@dataclass
class Measured:
    """One system at one size.

    wrong: the number of wrong elements in the checks. calls: the number of calls in the next burst. timed: the number
    of timed calls in all bursts so far. times, cpu: seconds per call in each round, of the slowest rank and summed over
    ranks. carried: bytes over each uplink per call in each round, in a lab; they include the benchmark's barriers.
    """

    session: Session
    algorithm: str = "default"
    wrong: int = 0
    calls: int = 1
    timed: int = 0
    times: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    carried: list[list[Traffic]] = field(default_factory=list)


@dataclass(frozen=True)
class Work:
    """The collective to measure, on `elements` elements (S of nccl-tests)."""

    collective: str
    dtype: str
    op: str
    elements: int
    root: int = 0


Complain = Callable[[str], None]
Meter = Callable[[], list[Traffic]]
"""Returns what has crossed each uplink so far."""
T = TypeVar("T")


def turns(all_of_them: list[T], round_number: int) -> list[T]:
    """Return the items in their order for this round; a different one is first in each round."""
    first = round_number % max(1, len(all_of_them))
    return all_of_them[first:] + all_of_them[:first]


class Interleaved:
    """Measures live sessions side by side. A session that fails is reported, stopped and left out from then on.

    complain: receives a sentence for each failure. meter: counts the bytes on the links of a lab.
    """

    def __init__(
        self, sessions: Sequence[Session], effort: Effort, complain: Complain, meter: Meter | None = None
    ) -> None:
        self.sessions = list(sessions)
        self.failed = self.refused = False
        self._effort = effort
        self._complain = complain
        self._meter = meter

    def measure(self, work: Work, progress: Callable[[int], None]) -> list[Measured]:
        """Check, time and check again each system. `progress` is called with the number of each finished round.

        Returns the systems that did not fail, in the order of the sessions.
        """
        measured = [Measured(session) for session in self.sessions]
        measured = self._each(measured, lambda one: self._prepare(one, work))
        deadline = time.monotonic() + self._effort.seconds
        for number in range(self._effort.rounds):
            if number >= _LEAST_ROUNDS and time.monotonic() > deadline:
                break
            measured = self._each(turns(measured, number), self._time)
            progress(number + 1)
        measured = self._each(measured, lambda one: _check(one, _SEEDS_AFTER))
        order = {id(session): place for place, session in enumerate(self.sessions)}
        return sorted(measured, key=lambda one: order[id(one.session)])

    def _prepare(self, one: Measured, work: Work) -> None:
        one.session.ask(do="prepare", codec=one.session.system.codec, **vars(work))
        _check(one, _SEEDS_BEFORE)
        one.calls = self._effort.calls or _calls(one.session, self._effort.burst)

    def _time(self, one: Measured) -> None:
        before = self._meter() if self._meter else []
        once, cpu, made = _burst(one.session, one.calls)
        after = self._meter() if self._meter else []
        one.carried.append([_per_call(a, b, made) for a, b in zip(before, after, strict=True)])
        one.times.append(once)
        one.cpu.append(cpu)
        one.timed += one.calls
        # Calls can become slower or faster than they were when they were counted, on a busy machine for example. Bursts
        # that are too short hardly show the rate of links that let a burst pass at once.
        length = once * one.calls / self._effort.burst
        if self._effort.calls is None and not 1 / _OFF <= length <= _OFF:
            one.calls = _that_fill(self._effort.burst, once)

    def _each(self, measured: list[Measured], step: Callable[[Measured], None]) -> list[Measured]:
        kept = []
        for one in measured:
            try:
                step(one)
                kept.append(one)
            except (SessionFailed, Unsupported) as reason:
                unsupported = isinstance(reason, Unsupported)
                self._complain(f"{one.session.system.label}: {reason}" if unsupported else str(reason))
                self.refused |= unsupported
                self.failed |= not unsupported
                self.sessions.remove(one.session)
                one.session.stop(gently=unsupported)
        return kept


def _burst(session: Session, calls: int) -> tuple[float, float, int]:
    """Return seconds per call of the slowest rank, CPU seconds per call of all ranks, and the number of calls made."""
    replies = session.ask(do="burst", calls=calls)
    slowest = max(float(reply["seconds"]) for reply in replies)
    cpu = sum(float(reply["cpu_seconds"]) for reply in replies)
    return slowest / calls, cpu / calls, int(replies[0]["calls"])


def _calls(session: Session, seconds: float) -> int:
    """Return the number of calls that fill `seconds`, estimated from one call and then from a tenth of a burst."""
    calls = 1
    for share in (0.1, 1.0):
        once, *_ = _burst(session, calls)
        calls = _that_fill(share * seconds, once)
    return calls


def _that_fill(seconds: float, once: float) -> int:
    return max(1, min(_MOST_CALLS, round(seconds / max(once, 1e-7))))


def _per_call(before: Traffic, after: Traffic, calls: int) -> Traffic:
    return Traffic(before.name, round((after.up - before.up) / calls), round((after.down - before.down) / calls))


def _check(one: Measured, seeds: list[int]) -> None:
    replies = one.session.ask(do="verify", seeds=seeds)
    one.wrong += sum(int(reply["wrong"]) for reply in replies)
    one.algorithm = str(replies[0]["algorithm"])
