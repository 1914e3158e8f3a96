"""Who gets collectives of a size, by what it takes: with fakes, whose times the test knows."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from paceline.calibration.torch import CONTEST_LEAD, CONTEST_ROUNDS, CONTEST_SECONDS, CONTEST_SIZES
from paceline.formats.sizes import show_seconds
from paceline.torch.contest import Verdict, contest, everything, nothing


def alone(times: list[float]) -> Sequence[float]:
    return times


@pytest.mark.parametrize("seed", range(20))
def test_each_size_goes_to_the_faster_one(seed: int) -> None:
    chance = random.Random(seed)
    engine = {size: chance.uniform(1e-5, 1e-3) for size in CONTEST_SIZES}
    nccl = {size: chance.uniform(1e-5, 1e-3) for size in CONTEST_SIZES}
    verdict = contest(engine.__getitem__, nccl.__getitem__, alone)
    for size in CONTEST_SIZES:
        assert verdict.for_challenger(size) is (engine[size] * CONTEST_LEAD < nccl[size])
        assert f"{size >> 10} KiB {show_seconds(engine[size])} against {show_seconds(nccl[size])}" in verdict.reason


def test_nccl_is_kept_where_both_take_the_same() -> None:
    assert contest(lambda size: 1e-4, lambda size: 1e-4, alone).wins == nothing("").wins


def test_sizes_between_go_with_the_nearest() -> None:
    verdict = Verdict((True, False, True, False), "")
    middle = 512 << 10  # between 256 KiB and 1 MiB
    answers = {0: True, 4 << 10: True, 16 << 10: True, (16 << 10) + 1: False, 64 << 10: False, middle: True}
    answers |= {1 << 20: True, 4 << 20: True, (4 << 20) + 1: False, 1 << 40: False}
    assert {size: verdict.for_challenger(size) for size in answers} == answers
    assert all(everything("").for_challenger(size) and not nothing("").for_challenger(size) for size in answers)


@pytest.mark.parametrize("seconds", [1e-9, 1e-4, 1e-3, 10.0])
def test_rounds_end(seconds: float) -> None:
    rounds = 0

    def slowest(times: list[float]) -> list[float]:
        nonlocal rounds
        rounds += 1
        assert len(times) == 2 * len(CONTEST_SIZES)
        return times

    contest(lambda size: seconds, lambda size: seconds, slowest)
    expected = -(-CONTEST_SECONDS // (seconds * 2 * len(CONTEST_SIZES)))
    assert abs(rounds - 1 - min(max(expected, 1), CONTEST_ROUNDS)) <= 1


def test_the_first_round_does_not_count_and_a_disturbance_neither() -> None:
    calls = 0

    def engine(size: int) -> float:
        nonlocal calls
        calls += 1
        first_round, second_round = calls <= len(CONTEST_SIZES), calls <= 2 * len(CONTEST_SIZES)
        return 1e-9 if first_round else 1e-2 if second_round else 2e-4

    verdict = contest(engine, lambda size: 1e-4, alone)
    assert not any(verdict.wins)
    assert "200 us against 100 us" in verdict.reason


def test_all_ranks_say_the_same() -> None:
    """Of two ranks, each is slow at something: what is slow on one of them counts on both."""
    chance = random.Random(7)
    rounds = [
        [[chance.uniform(1e-5, 1e-3) for _ in range(2 * len(CONTEST_SIZES))] for _ in range(2)]
        for _ in range(CONTEST_ROUNDS + 1)
    ]

    def verdict_of(rank: int) -> Verdict:
        number = 0

        def slowest(times: list[float]) -> list[float]:
            nonlocal number
            assert times == rounds[number][rank]
            number += 1
            return [max(pair) for pair in zip(*rounds[number - 1], strict=True)]

        def timed(offset: int) -> list[float]:
            return rounds[number][rank][offset : offset + len(CONTEST_SIZES)]

        return contest(
            lambda size: timed(0)[CONTEST_SIZES.index(size)],
            lambda size: timed(len(CONTEST_SIZES))[CONTEST_SIZES.index(size)],
            slowest,
        )

    assert verdict_of(0) == verdict_of(1)


def test_what_fails_is_raised() -> None:
    def fails(size: int) -> float:
        raise RuntimeError("no way")

    with pytest.raises(RuntimeError, match="no way"):
        contest(lambda size: 1e-4, fails, alone)
