"""Clocks of machines that differ are found again, as exactly as the collectives allow."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from paceline.observe.trace.aligned import aligned
from paceline.observe.trace.clocks import Clock, Clocks, Meeting, clocks
from paceline.observe.trace.dump import Dump
from paceline.observe.trace.event import Event
from paceline.observe.trace.request import Request

# For each collective: how long after the one before it starts, how late each rank comes and how long it then takes.
waits = st.integers(0, 10**6)
meetings = st.lists(
    st.tuples(waits, st.lists(st.tuples(waits, waits), min_size=4, max_size=4)), min_size=1, max_size=30
)


@given(meetings, st.lists(st.integers(-(10**12), 10**12), min_size=2, max_size=2))
def test_the_true_difference_is_within_the_error(calls: list, ahead: list[int]) -> None:
    """Four ranks on two machines, whose clocks are ahead by anything."""
    seen: list[list[Meeting]] = [[] for _ in range(4)]
    now = 0
    for number, (pause, ranks) in enumerate(calls):
        now += pause
        begins = [now + late for late, _ in ranks]
        ends = [max(begins) + takes for _, takes in ranks]  # nobody leaves before everybody has come
        for rank, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            shift = ahead[rank // 2]
            seen[rank].append(Meeting(5, number, begin + shift, end + shift))
        now = max(ends)
    found = clocks((Clocks(f"machine {rank // 2}"), ones) for rank, ones in enumerate(seen))
    assert found["machine 0"] == Clock(0, 0)
    clock = found["machine 1"]
    assert abs(clock.ahead_ns - (ahead[1] - ahead[0])) <= clock.error_ns + 1
    lateness = max(late for _, ranks in calls for late, _ in ranks) + max(
        takes for _, ranks in calls for _, takes in ranks
    )
    assert clock.error_ns <= lateness


def test_without_a_meeting_a_clock_is_taken_as_it_is() -> None:
    seen = [(Clocks("a"), [Meeting(1, 0, 0, 10)]), (Clocks("b"), [Meeting(2, 0, 500, 510)])]
    assert clocks(seen)["b"] == Clock(0, math.inf)
    assert clocks([]) == {}


def test_a_clock_that_was_set_meanwhile_is_taken_as_it_is() -> None:
    seen = [
        (Clocks("a"), [Meeting(1, 0, 0, 10), Meeting(1, 1, 20, 30)]),
        (Clocks("b"), [Meeting(1, 0, 0, 10), Meeting(1, 1, 920, 930)]),
    ]
    assert clocks(seen)["b"] == Clock(0, math.inf)


LATE = [Meeting(1, number, 100 * number, 100 * number + 90) for number in range(9)]
ALWAYS_LATE = [Meeting(1, number, 100 * number + 80, 100 * number + 90) for number in range(9)]
"""The same on a rank that comes 80 ns after the others: its clock may be 10 ns behind, or up to 90 ns ahead."""


def test_a_clock_that_may_be_right_is_not_moved() -> None:
    assert clocks([(Clocks("a"), LATE), (Clocks("b"), ALWAYS_LATE)])["b"] == Clock(0, 90)


@given(st.integers(-(10**13), 10**13), st.integers(0, 20), st.integers(0, 20))
def test_what_links_tell_counts_where_a_rank_is_always_late(ahead: int, under: int, over: int) -> None:
    moved = [Meeting(1, one.sequence, one.begin_ns + ahead, one.end_ns + ahead) for one in ALWAYS_LATE]
    told = Clocks("a", {"b": (ahead - under, ahead + over)})
    for seen in ([(told, LATE), (Clocks("b"), moved)], [(told, []), (Clocks("b"), [])]):
        clock = clocks(seen)["b"]
        assert abs(clock.ahead_ns - ahead) <= clock.error_ns + 1 <= under + over + 1


def test_a_clock_is_told_over_a_third_machine() -> None:
    seen = [Clocks("a", {"b": (990, 1010)}), Clocks("b"), Clocks("c", {"b": (-5020, -4980), "a": (-9000, -4000)})]
    assert clocks((one, []) for one in seen)["c"] == Clock(6000, 30)


def test_bounds_that_drift_apart_are_still_bounds() -> None:
    seen = [(Clocks("a", {"b": (100, 110)}), []), (Clocks("b", {"a": (-140, -130)}), [])]
    assert clocks(seen)["b"] == Clock(120, 10)


def test_a_meeting_that_contradicts_the_links_is_of_before_the_clock_was_set() -> None:
    seen = [(Clocks("a", {"b": (5000, 5010)}), LATE), (Clocks("b"), LATE)]
    assert clocks(seen)["b"] == Clock(5005, 5)


def test_everything_in_a_dump_is_moved() -> None:
    def dump(rank: int, host: str, shift: int) -> Dump:
        event = Event(
            1, 5, 0, "barrier", "uint8", "SUM", 0, "", "tcp", 1000 + shift, 1100 + shift, 1200 + shift, "done"
        )
        running = event._replace(id=2, sequence=1, enqueue_ns=1300 + shift, start_ns=0, end_ns=0, state="running")
        request = Request(5, "w", "all_reduce", 4, 1, 1000 + shift, 1050 + shift, 0, 0, 1200 + shift, 0)
        return Dump(rank, host, 7, (event, running), requests=(request,), written_ns=2000 + shift)

    first, second = aligned([dump(0, "a", 0), dump(1, "b", 10**9)])
    assert first == dump(0, "a", 0)
    assert second == dump(1, "b", 0)
