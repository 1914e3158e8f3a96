"""What is chosen for which size, why, and in what form the engine gets it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.plan import Plan, pick, plans
from paceline.plan.choose import COLLECTIVES, NO_LIMIT, ONE_SHOT_BYTES_REMOTE, ONE_SHOT_SLOT, choose
from paceline.plan.ring import ring
from paceline.plan.verify import verify, verify_blocks
from paceline.plan.wire import from_wire, to_wire

KIB = 1024
every_case = pytest.mark.parametrize(
    ("size", "one_machine"), [(size, shared) for size in (*range(1, 34), 64) for shared in (True, False)]
)


def leaves(thing: object) -> Iterator[object]:
    if isinstance(thing, tuple):
        for part in thing:
            yield from leaves(part)
    else:
        yield thing


@every_case
def test_limits_rise_and_the_last_has_none(size: int, one_machine: bool) -> None:
    for entries in plans(size, one_machine).values():
        limits = [limit for limit, *_ in entries]
        assert limits[-1] == NO_LIMIT == -1
        assert all(limit > 0 for limit in limits[:-1])
        assert all(before < after for before, after in pairwise(limits[:-1]))


@every_case
def test_every_choice_has_a_reason_in_one_sentence(size: int, one_machine: bool) -> None:
    for collective in COLLECTIVES:
        for choice in choose(collective, size, one_machine):
            assert choice.reason[0].isupper()
            assert choice.reason.endswith(".")
            assert ". " not in choice.reason
            assert "\n" not in choice.reason


@pytest.mark.parametrize("one_machine", [True, False])
@pytest.mark.parametrize("size", [*range(1, 18), 33])
def test_what_the_engine_gets_is_proven(size: int, one_machine: bool) -> None:
    for collective, entries in plans(size, one_machine).items():
        for limit, name, one_shot, _chunk, levels in entries:
            plan = from_wire(size, name, levels)
            owners = verify(plan)
            if collective == "all_gather":
                verify_blocks(plan)
            if collective == "broadcast" or (one_shot and collective == "all_reduce"):
                assert [owner for _, owner in owners] == [0]
            if one_shot:
                shown = limit // size if collective == "all_gather" else limit
                assert 0 < shown <= (ONE_SHOT_SLOT if one_machine else ONE_SHOT_BYTES_REMOTE)
                assert len(levels) == 1
            assert {type(leaf) for leaf in leaves(levels)} <= {int}


@pytest.mark.parametrize(
    ("collective", "size", "one_machine", "expected"),
    [
        ("all_reduce", 2, True, {8: "one_shot", 64 * KIB: "one_shot", 64 * KIB + 1: "direct", 1 << 30: "direct"}),
        ("all_reduce", 8, False, {0: "one_shot", 1025: "halving_doubling", 256 * KIB + 1: "ring"}),
        ("all_reduce", 9, False, {8: "halving_doubling", 256 * KIB: "halving_doubling", 1 << 40: "ring"}),
        ("all_gather", 4, True, {8: "one_shot", 16 * KIB: "one_shot", 16 * KIB + 1: "direct"}),
        ("all_gather", 4, False, {64 * KIB: "direct", 64 * KIB + 1: "ring"}),
        ("broadcast", 4, True, {8: "one_shot", 4 * KIB: "one_shot", 1 << 30: "flat"}),
        ("broadcast", 5, True, {8: "one_shot", 64 * KIB + 1: "binomial"}),
        ("broadcast", 2, False, {8: "binomial", 1 << 30: "binomial"}),
        ("all_reduce", 1, False, {0: "none", 1 << 30: "none"}),
    ],
)
def test_thresholds(collective: str, size: int, one_machine: bool, expected: dict[int, str]) -> None:
    assert {nbytes: pick(collective, size, one_machine, nbytes).name for nbytes in expected} == expected


@pytest.mark.parametrize("one_machine", [True, False])
def test_a_single_rank_has_nothing_to_do(one_machine: bool) -> None:
    assert plans(1, one_machine) == {name: [(-1, "none", False, 0, ())] for name in COLLECTIVES}


def test_bad_requests() -> None:
    with pytest.raises(ValueError, match="size is 0"):
        plans(0, True)
    with pytest.raises(ValueError, match="'alltoall', but plans exist for all_reduce"):
        choose("alltoall", 2, True)


@given(st.integers(1, 33), st.booleans(), st.sampled_from(COLLECTIVES))
def test_wire_form_round_trips(size: int, one_machine: bool, collective: str) -> None:
    for choice in choose(collective, size, one_machine):
        plan = choice.plan
        assert from_wire(size, plan.name, to_wire(plan)) == plan


def test_plans_are_values() -> None:
    assert ring(5) == ring(5)
    assert hash(ring(5)) == hash(ring(5))
    with pytest.raises(FrozenInstanceError):
        Plan(1, "none", ()).world = 2  # type: ignore[misc]


def test_64_ranks_are_quick() -> None:
    def seconds() -> float:
        begin = time.perf_counter()
        plans(64, False)
        return time.perf_counter() - begin

    assert min(seconds() for _ in range(5)) < 0.1
