"""Tuning: the state machine with any times at all, and real ranks."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from statistics import median

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs import run

from paceline.coordinate import tuner
from paceline.coordinate.tuner import CANDIDATES, Tuner, written

FIRST = 64 << 20
durations = st.one_of(st.just(0.0), st.floats(1e-6, 1e3), st.sampled_from([1.0, 0.99, 1.01]))


def made(first: int, times: object, counts: object) -> Tuner:
    tuned = Tuner(first)
    for seconds, requests in zip(times, counts, strict=False):  # type: ignore[call-overload]
        if tuned.outcome:
            break
        tuned.add(seconds, requests)
    return tuned


@settings(derandomize=True)
@given(
    st.sampled_from([0, 1 << 20, 5 << 20, FIRST]),
    st.lists(durations, min_size=1, max_size=50),
    st.lists(st.sampled_from([3, 3, 3, 3, 3, 4]), min_size=1, max_size=50),
)
def test_any_times_come_to_an_end_and_nothing_worse_is_chosen(
    first: int, times: list[float], counts: list[int]
) -> None:
    tuned = made(first, itertools.cycle(times), itertools.cycle(counts))
    assert tuned.outcome and tuned.steps <= tuned.most_steps
    again = made(first, itertools.cycle(times), itertools.cycle(counts))
    assert (again.outcome, again.turns) == (tuned.outcome, tuned.turns)
    if tuned.fusion_bytes == first:
        assert f"{written(first)} stay" in tuned.outcome
        return
    assert tuned.fusion_bytes in CANDIDATES
    for rounds in (range(1, tuner.ROUNDS + 1), range(tuner.ROUNDS + 1, 2 * tuner.ROUNDS + 1)):
        taken = {(turn.round, turn.fusion_bytes): turn.seconds for turn in tuned.turns}
        figures = [taken[number, tuned.fusion_bytes] / max(taken[number, first], 1e-9) for number in rounds]
        assert median(figures) <= tuner.BETTER
        assert sum(figure >= 1 for figure in figures) <= 1


def trial(costs: dict[int, float], noise: float, seed: int, drift: float = 0.0) -> Tuner:
    """Tuned where a step of each size takes so long, give or take `noise` of it."""
    draw = random.Random(seed)
    tuned = Tuner(FIRST)
    for step in range(tuned.most_steps):
        if tuned.outcome:
            break
        tuned.add(costs[tuned.fusion_bytes] * (1 + draw.uniform(-noise, noise)) * (1 + drift * step), 161)
    assert tuned.outcome
    return tuned


@settings(derandomize=True)
@given(
    st.lists(st.floats(0.7, 1.5), min_size=3, max_size=3),
    st.floats(0, 0.3),
    st.integers(0, 1 << 32),
    st.floats(-0.001, 0.01),
)
def test_what_is_chosen_is_not_slower_by_2_percent(others: list[float], noise: float, seed: int, drift: float) -> None:
    costs = {**dict(zip(CANDIDATES, others, strict=False)), FIRST: 1.0}
    assert costs[trial(costs, noise, seed, drift).fusion_bytes] <= 1.02


@pytest.mark.parametrize("best", CANDIDATES[:3])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_clearly_better_is_found_in_noise(best: int, seed: int) -> None:
    costs = {size: 0.8 if size == best else 1.0 for size in CANDIDATES}
    tuned = trial(costs, 0.1, seed)
    assert tuned.fusion_bytes == best
    assert f"{written(best)} instead of 64 MiB" in tuned.outcome


@pytest.mark.parametrize(("cost", "rounds"), [(1.4, 1), (1.1, tuner.FIRST_LOOK)])
def test_what_is_clearly_worse_is_not_tried_for_long(cost: float, rounds: int) -> None:
    tuned = trial({size: 1.0 if size == FIRST else cost for size in CANDIDATES}, 0.03, 1)
    assert tuned.fusion_bytes == FIRST
    assert tuned.steps == tuner.WARM_UP + rounds * len(CANDIDATES) * (1 + tuner.COUNTED)
    assert "64 MiB stay, because no other size was better; of a step's time with 64 MiB took 1 MiB 1" in tuned.outcome


def test_steps_that_are_not_alike_are_given_up() -> None:
    tuned = made(FIRST, itertools.repeat(1.0), itertools.count())
    assert tuned.outcome == "batches of at most 64 MiB stay, because steps are not alike; 21 steps were tried"


@pytest.mark.parametrize("machines", ["00", "01", "001"])
def test_ranks_are_tuned_together(machines: str, tmp_path: Path) -> None:
    table = tmp_path / "tried.csv"
    output = tmp_path / "output"
    output.mkdir()
    run(
        len(machines),
        Path(__file__).with_name("tuned_job.py"),
        machines,
        "850",
        output=output,
        env={"HOROVOD_AUTOTUNE_LOG": str(table)},
    )
    told = "".join(path.read_text() for path in sorted(output.iterdir()))
    assert told.count("autotune: batches of at most ") == 1, told
    rows = table.read_text().splitlines()
    assert rows[0] == "round,fusion_bytes,step_seconds"
    assert {int(row.split(",")[1]) for row in rows[1:]} == set(CANDIDATES)
