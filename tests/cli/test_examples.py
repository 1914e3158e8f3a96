"""The examples run as their first lines say; those that are no matter of torchrun's without it, which is quicker."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from launched import environment, finish, paceline_run

from paceline.launch import torchrun

EXAMPLES = Path(__file__).parents[2] / "examples"
NEEDS_TORCH = pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")


def run(name: str, *options: str) -> list[str]:
    """What it prints, started with the words in its docstring."""
    file = EXAMPLES / name
    match = re.search(r"paceline run (-n \d+) examples/(\S+?)\"\"\"", file.read_text())
    assert match is not None
    assert match[2] == name
    code, out, err = finish(
        paceline_run(*match[1].split(), *options, file, env=environment(PACELINE_TIMEOUT="60")), 100
    )
    assert code == 0, err
    return out.splitlines()


@NEEDS_TORCH
@pytest.mark.skipif(not entry_points(group="torch.backends", name="paceline"), reason="paceline is not installed")
def test_training() -> None:
    losses = [float(line.rpartition(" ")[2]) for line in run("train.py")]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 4


def test_averages() -> None:
    assert run("average.py", "--direct") == [
        "mean of the ranks: 1.5",
        "ranks and their squares: [[0, 0], [1, 1], [2, 4], [3, 9]]",
    ]


@NEEDS_TORCH
def test_names() -> None:
    assert run("named.py", "--direct") == ["8 tensors on 2 ranks, each with the mean 0.5"]
