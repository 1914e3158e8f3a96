"""Tuning: the state machine with any times at all, and real ranks."""

from __future__ import annotations

import itertools
import random
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jobs import run

from paceline import _engine
from paceline.calibration import coordinate as fitted
from paceline.coordinate import Options
from paceline.coordinate.choices import OTHERS, SIZES, policies, sizes
from paceline.coordinate.tuner import Tuner
from paceline.coordinate.tuning import Tuning
from paceline.formats.sizes import show_bytes
from paceline.settings.settings import Settings

FIRST = 64 << 20
LONELY = {"RANK": "0", "WORLD_SIZE": "1"}
durations = st.one_of(st.just(0.0), st.floats(1e-6, 1e3), st.sampled_from([1.0, 0.99, 1.01]))


def made(first: int, times: object, counts: object) -> Tuner[int]:
    tuned = sizes(first)
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
    if tuned.choice == first:
        assert f"{show_bytes(first)} stay" in tuned.outcome
        return
    assert tuned.choice in SIZES
    for rounds in (range(1, fitted.ROUNDS + 1), range(fitted.ROUNDS + 1, 2 * fitted.ROUNDS + 1)):
        taken = {(turn.round, turn.choice): turn.seconds for turn in tuned.turns}
        figures = [taken[number, tuned.choice] / max(taken[number, first], 1e-9) for number in rounds]
        assert median(figures) <= fitted.BETTER
        assert sum(figure >= 1 for figure in figures) <= 1


def trial(tuned: Tuner[Any], costs: dict[Any, float], noise: float, seed: int, drift: float = 0.0) -> Tuner[Any]:
    """Tuned where a step of each choice takes so long, give or take `noise` of it."""
    draw = random.Random(seed)
    for step in range(tuned.most_steps):
        if tuned.outcome:
            break
        tuned.add(costs[tuned.choice] * (1 + draw.uniform(-noise, noise)) * (1 + drift * step), 161)
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
    costs = {**dict(zip(SIZES, others, strict=False)), FIRST: 1.0}
    assert costs[trial(sizes(FIRST), costs, noise, seed, drift).choice] <= 1.02


@pytest.mark.parametrize("best", SIZES[:3])
@pytest.mark.parametrize("seed", range(5))
def test_what_is_clearly_better_is_found_in_noise(best: int, seed: int) -> None:
    costs = {size: 0.8 if size == best else 1.0 for size in SIZES}
    tuned = trial(sizes(FIRST), costs, 0.1, seed)
    assert tuned.choice == best
    assert f"{show_bytes(best)} instead of 64 MiB" in tuned.outcome


@pytest.mark.parametrize(("cost", "rounds"), [(1.4, 1), (1.1, fitted.FIRST_LOOK)])
def test_what_is_clearly_worse_is_not_tried_for_long(cost: float, rounds: int) -> None:
    tuned = trial(sizes(FIRST), {size: 1.0 if size == FIRST else cost for size in SIZES}, 0.03, 1)
    assert tuned.choice == FIRST
    assert tuned.steps == fitted.WARM_UP_STEPS + rounds * len(SIZES) * (1 + fitted.COUNTED_STEPS)
    assert "64 MiB stay, because no other size was better; of a step's time with 64 MiB took 1 MiB 1" in tuned.outcome


def test_steps_that_are_not_alike_are_given_up() -> None:
    tuned = made(FIRST, itertools.repeat(1.0), itertools.count())
    assert tuned.outcome == "batches of at most 64 MiB stay, because steps are not alike; 21 steps were tried"


@pytest.mark.parametrize("machines", ["00", "01", pytest.param("001", marks=pytest.mark.verify)])
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
    assert rows[0] == "round,choice,step_seconds"
    assert {int(row.split(",")[1]) for row in rows[1:]} == set(SIZES)


@pytest.mark.parametrize("best", ["graph", "cycle"])
def test_the_policy_that_is_clearly_better_is_found_in_noise(best: str) -> None:
    costs = {policy: 0.8 if policy == best else 1.0 for policy in ("board", *OTHERS)}
    tuned = trial(policies(), costs, 0.1, 3)
    assert tuned.choice == best
    assert tuned.outcome.startswith(f"policy {best} instead of board"), tuned.outcome


@settings(derandomize=True)
@given(st.lists(st.floats(0.7, 1.5), min_size=2, max_size=2), st.floats(0, 0.3), st.integers(0, 1 << 32))
def test_the_policy_that_is_chosen_is_not_slower_by_2_percent(others: list[float], noise: float, seed: int) -> None:
    costs = {"board": 1.0, **dict(zip(OTHERS, others, strict=True))}
    tuned = trial(policies(), costs, noise, seed)
    assert costs[tuned.choice] <= 1.02
    assert (tuned.choice == "board") == tuned.outcome.startswith("policy board stays, because no other policy was ")


def test_who_names_a_policy_or_a_size_gets_it() -> None:
    tuned = {**LONELY, "PACELINE_AUTOTUNE": "1"}
    assert Options.from_settings(Settings.from_environment(tuned)).autotune_policy
    named = Options.from_settings(Settings.from_environment({**tuned, "PACELINE_POLICY": "board"}))
    assert named.autotune and not named.autotune_policy
    sized = Options.from_settings(Settings.from_environment({**tuned, "HOROVOD_FUSION_THRESHOLD": "1000000"}))
    assert sized.autotune_policy and not sized.autotune and sized.fusion_bytes == 1000000
    with pytest.raises(ValueError, match="autotune_policy begins with policy \"board\", not with 'graph'"):
        Options(policy="graph", autotune_policy=True)


def test_a_size_that_was_set_is_kept_while_the_policy_is_tuned() -> None:
    class Native:
        """Everything takes the same time; what is asked for comes at once."""

        policy = "board"

        def in_use(self) -> tuple[str, bool]:
            return self.policy, False

        def use(self, policy: str, order: object) -> None:
            self.policy = policy

        def tune(self, size: int) -> None:
            raise AssertionError(size)

    ended: list[bool] = []
    tuning = Tuning(Native(), 1000, True, False, None, lambda: ended.append(True))
    for _ in range(5000):
        if not ended:
            tuning.note("one", 1, _engine.DTYPES["float32"], (0, 0), (0, 0))
    assert ended == [True]


@pytest.mark.parametrize("machines", ["00", "01", "001"])
def test_ranks_change_their_policy_together(machines: str, tmp_path: Path) -> None:
    """In the midst of steps, some of which have joined ranks; all sums are exact."""
    run(len(machines), Path(__file__).with_name("changed_job.py"), machines, "150", output=tmp_path)


@pytest.mark.parametrize("joins", [False, True])
def test_a_policy_is_chosen_in_the_first_steps(joins: bool, tmp_path: Path) -> None:
    """Once, and said once; where a rank joins meanwhile, what it began with stays."""
    table = tmp_path / "tried.csv"
    output = tmp_path / "output"
    output.mkdir()
    environment = {"HOROVOD_AUTOTUNE_LOG": str(table)}
    run(2, Path(__file__).with_name("chosen_job.py"), str(int(joins)), output=output, env=environment)
    told = "".join(path.read_text() for path in sorted(output.iterdir()))
    assert told.count("autotune: policy ") == 1, told
    assert ("a rank had joined" in told) == joins, told
    rows = [row.split(",") for row in table.read_text().splitlines()]
    assert rows[0] == ["round", "choice", "step_seconds"]
    assert joins or {choice for _, choice, _ in rows[1:]} >= {"board", *OTHERS}
