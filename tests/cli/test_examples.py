"""The examples run with as many ranks as their first lines say. One is started by its first line; the ranks of the
others are forked, which is quicker."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from jobs import RAW, TORCH, run
from launched import example, run_example

from paceline.launch import torchrun

NEEDS_TORCH = pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")


@NEEDS_TORCH
@pytest.mark.skipif(not entry_points(group="torch.backends", name="paceline"), reason="paceline is not installed")
def test_training() -> None:
    """Nothing is imported from Paceline there: torch knows the backend by its name."""
    it_learns(run_example("train.py"))


@NEEDS_TORCH
def test_training_in_partitions(tmp_path: Path) -> None:
    it_learns(forked("hybrid.py", tmp_path, TORCH))


def it_learns(said: list[str]) -> None:
    losses = [float(line.rpartition(" ")[2]) for line in said]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 4


def forked(name: str, output: Path, imports: tuple[str, ...] = RAW) -> list[str]:
    """The lines that the example's ranks print."""
    ranks, file = example(name)
    run(ranks, file, output=output, env={"PACELINE_TIMEOUT": "100"}, imports=imports)
    return [line for rank in range(ranks) for line in (output / f"rank-{rank}.out").read_text().splitlines()]


def test_averages(tmp_path: Path) -> None:
    assert forked("average.py", tmp_path) == [
        "mean of the ranks: 1.5",
        "ranks and their squares: [[0, 0], [1, 1], [2, 4], [3, 9]]",
    ]


def test_any_framework(tmp_path: Path) -> None:
    assert forked("any_framework.py", tmp_path) == [
        f"{way}: the ranks have the same weights: True, within 0.01 of the answer: True" for way in ("NumPy", "DLPack")
    ]


@NEEDS_TORCH
def test_names(tmp_path: Path) -> None:
    assert forked("named.py", tmp_path, TORCH) == ["8 tensors on 2 ranks, each with the mean 0.5"]
