"""The examples run as their first lines say, and what the documentation shows whole runs as it stands; what is no
matter of torchrun's runs without it, which is quicker."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from launched import environment, finish, paceline_run, run_example

from paceline.launch import torchrun

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
NEEDS_TORCH = pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")


@NEEDS_TORCH
@pytest.mark.skipif(not entry_points(group="torch.backends", name="paceline"), reason="paceline is not installed")
@pytest.mark.parametrize("line", ["train.py", "hybrid.py --direct"])
def test_training(line: str) -> None:
    losses = [float(line.rpartition(" ")[2]) for line in run_example(*line.split())]
    assert len(losses) == 4
    assert losses[-1] < losses[0] / 4


def test_averages() -> None:
    assert run_example("average.py", "--direct") == [
        "mean of the ranks: 1.5",
        "ranks and their squares: [[0, 0], [1, 1], [2, 4], [3, 9]]",
    ]


def test_any_framework() -> None:
    assert run_example("any_framework.py", "--direct") == [
        f"{way}: the ranks have the same weights: True, within 0.01 of the answer: True" for way in ("NumPy", "DLPack")
    ]


@NEEDS_TORCH
def test_names() -> None:
    assert run_example("named.py", "--direct") == ["8 tensors on 2 ranks, each with the mean 0.5"]


@pytest.mark.parametrize(
    ("page", "shows", "holds"),
    [
        ("docs/tutorials/one-machine.md", 'group.all_reduce(gradient, "avg")', 1),
        ("docs/explanation/coordination.md", "Span.of(gradient)", 2),
    ],
)
def test_what_the_documentation_shows(page: str, shows: str, holds: int, tmp_path: Path) -> None:
    (block,) = [found for found in BLOCK.findall((ROOT / page).read_text()) if shows in found]
    program = tmp_path / "shown.py"
    program.write_text(f"{block}\nassert (gradient == {holds}).all()\nprint('it ran')\n")
    code, out, err = finish(paceline_run("-n", "2", "--direct", program, env=environment(PACELINE_TIMEOUT="60")), 250)
    assert code == 0, err
    assert out.count("it ran") == 2
