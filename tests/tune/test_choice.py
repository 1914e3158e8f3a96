"""What is chosen of measured settings: intervals, ties, effective batches, and what is said about them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.calibration.tune import BLOCKS
from paceline.cpu.budget import budget
from paceline.tune.choice import choose, is_clear, rows
from paceline.tune.estimate import estimate, ratio
from paceline.tune.run import Run, block_rates
from paceline.tune.setting import Samples, Setting, Shape
from paceline.tune.show import command, sentences
from paceline.tune.space import inside, space

positive = st.lists(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=5), min_size=1, max_size=5)


def runs(setting: Setting, *rates: float) -> list[Run]:
    return [Run(setting, number, 2.0, (rate, rate)) for number, rate in enumerate(rates)]


@settings(max_examples=30)
@given(positive)
def test_the_interval_holds_the_median_and_lies_within_what_was_seen(blocks: list[list[float]]) -> None:
    found = estimate(blocks)
    seen = np.concatenate(blocks)
    assert found.value == np.median(seen)
    assert seen.min() <= found.low <= found.value <= found.high <= seen.max()
    assert found == estimate(blocks), "the same runs, the same interval"


def test_the_interval_knows_that_blocks_of_one_run_resemble_each_other() -> None:
    rates = [float(number) for number in range(1, 16)]
    apart, mixed = (estimate(runs) for runs in ([rates[:5], rates[5:10], rates[10:]], [rates[n::3] for n in range(3)]))
    assert mixed.high - mixed.low < apart.high - apart.low
    assert ratio([rates], [[2.0, 2.0]]).value == 4.0


@given(st.lists(st.integers(1, 10**9), min_size=0, max_size=50))
def test_blocks_of_steps_cover_each_step_once(lengths: list[int]) -> None:
    begins = [sum(lengths[:number]) for number in range(len(lengths) + 1)]
    rates = block_rates(begins)
    assert len(rates) == min(BLOCKS, len(lengths))
    if lengths:
        assert 1e9 / max(lengths) * 0.999 <= min(rates) and max(rates) <= 1e9 / min(lengths) * 1.001
    assert block_rates([]) == block_rates([7]) == ()


def test_a_tie_goes_to_fewer_processes_and_threads() -> None:
    many, few, slow = Setting(4, 1), Setting(2, 1), Setting(1, 1)
    measured = [*runs(many, 25.0, 25.2, 24.8), *runs(few, 49.5, 49.9, 50.1), *runs(slow, 90.0, 90.1, 89.9)]
    found = rows(measured, Samples())
    assert [row.setting for row in found] == [many, few, slow]
    choice = choose(measured, found, {many, few, slow}, Samples(), slow)
    assert choice is not None
    assert (choice.chosen.setting, choice.fastest.setting) == (few, many)
    assert choice.next is not None and choice.next.setting == many
    assert choice.gain is not None and choice.gain.value == pytest.approx(99.8 / 90.0)
    said = "\n".join(sentences(choice, Samples(), ["python", "train.py"], None))
    assert "chosen: 2 processes with 1 thread each, 99.8 batches/s" in said
    assert "it ties with 4 × 1" in said and "effective batch: 2 times that of one process" in said
    assert "to use it: paceline run -n 2 --threads 1 -- python train.py" in said
    # Far enough apart that their intervals do not overlap, or not among the search's leaders, it is no tie.
    apart = [*runs(many, 25.0, 25.0), *runs(few, 49.4, 49.4)]
    assert choose(apart, rows(apart, Samples()), {many, few}, Samples()).chosen.setting == many  # type: ignore[union-attr]
    assert choose(measured, found, {many, slow}, Samples()).chosen.setting == many  # type: ignore[union-attr]
    assert choose(measured, found, set(), Samples()) is None
    assert [is_clear(rows(some, Samples())) for some in (measured, apart, [*apart, *runs(slow, 1.0)])] == [
        False,
        True,
        False,
    ]


def test_samples_count_and_not_steps() -> None:
    one, two = Setting(1, 2, batch=64), Setting(2, 1, batch=16)
    measured = [*runs(one, 10.0), *runs(two, 30.0)]
    words = ["python", "train.py", "--size={batch}"]
    choice = choose(measured, rows(measured, Samples()), {one, two}, Samples())
    assert choice is not None and choice.chosen.setting == two, "960 samples/s against 640"
    said = "\n".join(sentences(choice, Samples(), words, range(8, 17)))
    assert "effective batch: 32 (16 for each of 2 processes" in said and "it leaves 8:16" in said
    assert command(two, words)[-1] == "--size=16"
    assert "paceline run --tuned -- python train.py '--size={batch}'" in said
    shared = choose(measured, rows(measured, Samples(strong=True)), {one, two}, Samples(strong=True))
    assert shared is not None and shared.chosen.setting == one, "640 samples/s against 480"


def test_a_batch_is_a_replica_s_where_a_model_is_in_partitions() -> None:
    alike, divided = Setting(2, 1, batch=16, shape=Shape(1, 2, 1)), Setting(2, 1, batch=16, shape=Shape(2, 1, 8))
    measured = [*runs(alike, 10.0), *runs(divided, 15.0)]
    words = ["python", "train.py", "--size={batch}", "--shape", "{shape}"]
    choice = choose(measured, rows(measured, Samples()), {alike, divided}, Samples())
    assert choice is not None and choice.chosen.setting == alike, "320 samples/s against 240"
    said = "\n".join(sentences(choice, Samples(), words, None))
    assert "chosen: 2 processes with 1 thread each, batch 16, shape 1x2x1, 320 samples/s" in said
    assert "effective batch: 32 (16 for each of 2 replicas" in said
    assert command(divided, words)[-3:] == ["--size=16", "--shape", "2x1x8"]


def test_the_space_has_the_shapes_that_have_as_many_processes() -> None:
    every = [Shape(1, 1, 1), Shape(1, 2, 1), Shape(2, 1, 8), Shape(3, 1, 4)]
    found = space(budget(range(2), None), [(0,), (1,)], shapes=every)
    assert {(one.processes, one.shape) for one in found} == {(1, every[0]), (2, every[1]), (2, every[2])}


def test_a_failed_setting_is_a_row_with_its_reason() -> None:
    broken, works = Setting(2, 2), Setting(1, 1)
    measured = [Run(broken, 0, 0.5, reason="rank 1 exited with code 1: no"), *runs(works, 3.0)]
    found = rows(measured, Samples())
    assert [(row.setting, row.throughput is None, row.reason[:6]) for row in found] == [
        (works, False, ""),
        (broken, True, "rank 1"),
    ]
    choice = choose(measured, found, {broken, works}, Samples())
    assert choice is not None and choice.chosen.setting == works and choice.next is None


@given(st.integers(1, 64), st.one_of(st.none(), st.floats(0.5, 64)))
def test_the_space_keeps_to_the_cpus(cpus: int, quota: float | None) -> None:
    mine = budget(range(cpus), quota)
    found = space(mine, [(cpu,) for cpu in range(cpus)])
    usable = max(1, int(mine.cpus))
    assert len(set(found)) == len(found)
    assert Setting(1, usable) in found and Setting(usable, 1) in found
    for setting in found:
        assert usable % setting.processes == 0
        assert setting.processes * setting.threads <= usable
    assert [one.demand for one in found] == sorted(one.demand for one in found)


def test_the_space_divides_cores_and_takes_batches() -> None:
    found = space(budget(range(4), None), [(0,), (1,), (2,), (3,)], [8, 16])
    assert Setting(1, 2, "static", batch=8) in found and Setting(2, 2, "adaptive", batch=16) in found
    assert not [one for one in found if one.processes == 4 and one.cores != "off"]
    kept = inside(found, Samples(), range(16, 33))
    assert {(one.processes, one.batch) for one in kept} == {(1, 16), (2, 8), (2, 16), (4, 8)}
    assert inside(found, Samples(), range(1000, 1001)) == found, "nothing fits: the choice will say so"
