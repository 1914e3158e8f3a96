"""What docs/faster/data.md says, tried: ranks whose batches differ in size and number, beside one process on all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

PAGE = Path(__file__).parents[1] / "docs" / "faster" / "data.md"
SIZES = ((4, 4, 4), (5, 1), (3, 2, 1))
"""Of the batches of each rank."""

loss = nn.functional.mse_loss


def documented(heading: str) -> str:
    """The lines of Python under this heading of the page."""
    section = PAGE.read_text().partition(f"### {heading}\n")[2].partition("\n## ")[0]
    found = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert found is not None
    return found[1]


def loader(rank: int) -> list[tuple[Tensor, Tensor]]:
    chance = torch.Generator().manual_seed(rank)
    return [
        (torch.randn(size, 5, generator=chance).double(), torch.randn(size, 2, generator=chance).double())
        for size in SIZES[rank]
    ]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2)).double()


def optimizer(one: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(one.parameters(), lr=0.1, momentum=0.9)


def train(heading: str, given: dict[str, Any]) -> None:
    """Run the page's lines with these names, and `loss`."""
    exec(compile(documented(heading), str(PAGE), "exec"), {"torch": torch, "loss": loss, **given})


def check(trained: Iterable[Tensor], ranks: int) -> None:
    """These parameters are what one process makes of the combined batches."""
    one = model()
    stepper = optimizer(one)
    loaders = [loader(rank) for rank in range(ranks)]
    for step in range(max(map(len, loaders))):
        there = [batches[step] for batches in loaders if step < len(batches)]
        inputs, targets = (torch.cat(parts) for parts in zip(*there, strict=True))
        stepper.zero_grad()
        loss(one(inputs), targets).backward()
        stepper.step()
    for ours, theirs in zip(trained, one.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-13)
