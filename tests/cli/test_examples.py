"""The examples run with as many ranks as their first lines say, and what the documentation shows whole runs as it
stands. One is started by its first line; the ranks of the others are forked, which is quicker."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from jobs import RAW, TORCH, run
from launched import example, run_example

from paceline.launch import torchrun

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
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


CONTEXT = """
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import paceline.torch


class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))


dist.init_process_group("paceline")
torch.manual_seed(0)
rank, loss = dist.get_rank(), nn.functional.mse_loss
example = torch.randn(8, 3)
dataset = [(torch.randn(3), torch.randn(1)) for _ in range(600)]
loader = [(torch.randn(8, 3), torch.randn(8, 1)) for _ in range(3)]
module = model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
"""What the guides' lines take to be there."""


@NEEDS_TORCH
@pytest.mark.parametrize(
    ("page", "blocks"),
    [
        ("zero-copy", (0, 1)),
        ("sharded-optimizer", (0, 1, 2)),
        ("pipeline", (0, 2)),
        ("data", (0, 1)),
        ("compress", (0, 1)),
    ],
)
def test_the_lines_of_guides_run_in_order(page: str, blocks: tuple[int, ...], tmp_path: Path) -> None:
    found = BLOCK.findall((ROOT / "docs" / "faster" / f"{page}.md").read_text())
    shown = [found[block] for block in blocks]
    program, output = tmp_path / "shown.py", tmp_path / "output"
    program.write_text(
        "\n".join(
            [
                CONTEXT,
                f"import os; os.chdir({str(tmp_path)!r})",
                *(f"{one}\ndist.barrier()" for one in shown),
                "print('it ran')",
            ]
        )
    )
    output.mkdir()
    run(2, program, output=output, env={"PACELINE_TIMEOUT": "100"}, imports=TORCH)
    assert [file.read_text().splitlines()[-1] for file in sorted(output.glob("*.out"))] == ["it ran"] * 2


@pytest.mark.parametrize(
    ("page", "shows", "holds"),
    [
        ("docs/start/first-job.md", 'group.all_reduce(gradient, "avg")', 1),
        ("docs/understand/algorithms.md", "Span.of(gradient)", 2),
    ],
)
def test_what_the_documentation_shows(page: str, shows: str, holds: int, tmp_path: Path) -> None:
    (block,) = [found for found in BLOCK.findall((ROOT / page).read_text()) if shows in found]
    program = tmp_path / "shown.py"
    program.write_text(f"{block}\nassert (gradient == {holds}).all()\nprint('it ran')\n")
    output = tmp_path / "output"
    output.mkdir()
    run(2, program, output=output, env={"PACELINE_TIMEOUT": "60"})
    assert [file.read_text().splitlines()[-1] for file in sorted(output.glob("*.out"))] == ["it ran"] * 2
