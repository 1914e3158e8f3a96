"""When ranks stop to look at what their last large calls took: all before the same calls, whoever runs ahead."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline._engine import CollectiveCall
from paceline.adapt.adaptation import Adaptation
from paceline.observe.internal import InternalOperations

NBYTES = 4 << 20
EXPECTED, SLOW = 0.05, 0.2
"""Seconds of a call, before and after the network has changed."""
CALLS = 80


class Job:
    """Ranks that make the same calls. One may be some calls ahead of another; a call is over once all have begun it."""

    def __init__(self, ranks: int, changes_at: int) -> None:
        self.agreements: dict[int, list[Any]] = {}  # the values that ranks have given, by the agreement's number
        self.changes_at = changes_at
        self.ranks = [Rank(self, rank) for rank in range(ranks)]

    def begun_by_all(self) -> int:
        return min(rank.count for rank in self.ranks)


class Rank:
    """A rank's native group, and what its adaptation did."""

    def __init__(self, job: Job, rank: int) -> None:
        self.job, self.rank, self.channel = job, rank, 1
        self.count = self.ahead = self.agreed = 0
        self.stop = 0
        self.stops: list[int] = []
        self.planned: list[int] = []
        self.aborted: list[str] = []
        host: Any = SimpleNamespace(
            annotations=SimpleNamespace(internal=InternalOperations()), dropped=lambda operation: None
        )
        replanner: Any = SimpleNamespace(
            expected=lambda call: EXPECTED, changed=self._changed, plan_again=lambda *_: self.planned.append(self.count)
        )
        native: Any = self
        self._look: Callable[[], None]
        Adaptation(host, native, replanner).count_calls()

    @property
    def waits(self) -> bool:
        """Whether it would look at an agreement that not all ranks have given their part of."""
        parts = self.job.agreements.get(self.agreed - 1, ())
        return self.count >= self.stop and self.agreed > 0 and len(parts) < len(self.job.ranks)

    def call(self) -> None:
        if self.count >= self.stop:
            self.stops.append(self.count)
            self._look()
        self.ahead = max(self.ahead, self.count - self.job.begun_by_all())
        self.count += 1

    def _changed(self, calls: list[Any], seconds: Any) -> float | None:
        assert len(calls) == len(seconds) and all(call.nbytes == NBYTES for call in calls)
        return SLOW / EXPECTED if not self.planned and (seconds > 2 * EXPECTED).any() else None

    # As `_engine.Group`.
    @property
    def sequence(self) -> int:
        return self.agreed

    def count_large(self, stop: int, look: Callable[[], None]) -> None:
        self.stop, self._look = stop, look

    def stop_before(self, number: int) -> None:
        assert number > self.count
        self.stop = number

    def large_calls(self, first: int) -> tuple[int, int, list[tuple[str, int, float]]]:
        over = self.job.begun_by_all()
        took = [SLOW if number >= self.job.changes_at else EXPECTED for number in range(first, self.count)]
        return (
            self.count,
            self.ahead,
            [
                ("all_reduce", NBYTES, took[number - first] + self.rank if number < over else -1.0)
                for number in range(first, self.count)
            ],
        )

    def finish_large(self) -> None:
        pass

    def abort(self, reason: str) -> None:
        self.aborted.append(reason)

    def start(self, call: CollectiveCall, _mode: int) -> Any:
        values = np.ctypeslib.as_array((ctypes.c_double * call.count).from_address(call.target))
        parts = self.job.agreements.setdefault(self.agreed, [])
        parts.append(values.copy())
        self.agreed += 1

        def wait(_: float) -> None:
            assert len(parts) == len(self.job.ranks), "it waits for a rank that is behind"
            assert len({len(part) for part in parts}) == 1, "ranks agree on different calls"
            values[:] = np.min(parts, axis=0)

        return SimpleNamespace(wait=wait, done=lambda: True)


@settings(max_examples=40)
@given(st.integers(2, 4), st.integers(0, CALLS), st.integers(1, 6), st.randoms(use_true_random=False))
def test_all_ranks_stop_and_plan_before_the_same_calls(ranks: int, changes_at: int, lead: int, order: Any) -> None:
    job = Job(ranks, changes_at)
    while job.begun_by_all() < CALLS:
        able = [
            rank
            for rank in job.ranks
            if rank.count < CALLS and rank.count - job.begun_by_all() < lead and not rank.waits
        ]
        assert able, "ranks wait for each other"
        order.choice(able).call()
    first, *others = job.ranks
    assert all(rank.stops == first.stops and rank.planned == first.planned for rank in others)
    assert not any(rank.aborted for rank in job.ranks)
    if changes_at < CALLS // 2:
        assert first.planned
    if changes_at == CALLS:
        assert not first.planned


def test_ranks_that_do_not_run_ahead_stop_before_every_call_that_takes_long() -> None:
    job = Job(2, CALLS)
    for _ in range(CALLS):
        for rank in job.ranks:
            assert not rank.waits
            rank.call()
    stops = job.ranks[0].stops
    assert stops[:2] == [8, 24] and np.diff(stops[1:]).max() <= 3, stops


def test_a_rank_that_cannot_go_on_says_so_to_the_others() -> None:
    job = Job(2, 0)
    broken, other = job.ranks

    def cannot(*_: Any) -> None:
        raise MemoryError("no room")

    broken.large_calls = cannot  # type: ignore[method-assign]
    for _ in range(8):
        other.call()
        broken.call()
    try:
        broken.call()
    except MemoryError:
        pass
    else:
        raise AssertionError("the error is hidden")
    assert broken.aborted == ["plans could not be kept to the network: no room"] and not other.aborted
