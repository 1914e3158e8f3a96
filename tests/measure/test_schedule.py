"""Who measures with whom: everybody meets, and nobody is in two pairs of one round."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.adapt.measure.schedule import Round, crowds, packed, rounds


def disjoint(pairs: Round) -> bool:
    members = [machine for pair in pairs for machine in pair]
    return len(members) == len(set(members))


@given(st.integers(1, 70))
def test_every_two_meet_once_in_as_few_rounds_as_there_can_be(count: int) -> None:
    schedule = rounds(count, 1000)
    assert all(disjoint(pairs) for pairs in schedule)
    assert sorted(pair for pairs in schedule for pair in pairs) == list(combinations(range(count), 2))
    assert len(schedule) == max(count - 1 + count % 2, 0) or count == 1


@settings(max_examples=40)
@given(st.integers(2, 300), st.integers(1, 63))
def test_a_bounded_schedule_leaves_out_meetings_but_nobody(count: int, most: int) -> None:
    schedule = rounds(count, most)
    assert len(schedule) <= most
    pairs = [pair for pairs in schedule for pair in pairs]
    assert len(pairs) == len(set(pairs)) and all(disjoint(one) for one in schedule)
    if most > 1 or count % 2 == 0:
        assert {machine for pair in pairs for machine in pair} == set(range(count))


@given(st.sets(st.tuples(st.integers(0, 9), st.integers(0, 9)).filter(lambda pair: pair[0] != pair[1])))
def test_chosen_pairs_are_packed(pairs: set[tuple[int, int]]) -> None:
    wanted = {(min(pair), max(pair)) for pair in pairs}
    schedule = packed(pairs, 1000)
    assert all(disjoint(one) for one in schedule)
    assert sorted(pair for one in schedule for pair in one) == sorted(wanted)
    assert len(packed(pairs, 2)) <= 2


@given(st.integers(2, 40), st.integers(1, 70))
def test_in_crowds_everybody_sends_to_one_and_to_all_others_equally_often(count: int, least: int) -> None:
    schedule = crowds(count, least)
    assert least <= len(schedule) < least + count - 1
    assert all(sorted(to) == list(range(count)) for to in schedule)
    met = Counter((machine, target) for to in schedule for machine, target in enumerate(to))
    assert len(met) == count * (count - 1) and len(set(met.values())) == 1
    assert all(machine != target for machine, target in met)
