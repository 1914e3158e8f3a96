"""Write src/paceline/simulate/models.json: for every network, its gradients and when backward has made each of them.

A layer's forward pass is counted as its multiplications and its backward pass as twice that. Run it when a network is
added; it needs torch and takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from paceline_bench.ranks.models import NETWORKS, pixels

TARGET = Path(__file__).parents[1] / "src/paceline/simulate/models.json"
BACKWARD = 2
"""Multiplications of a backward pass, in those of the forward pass."""


class Transformer(nn.Module):
    """A decoder with the sizes of GPT-2 small: 12 layers of width 768, 1024 tokens, 50 257 words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(50_257, 768)
        self.layers = nn.ModuleList(_Layer(768) for _ in range(12))
        self.norm = nn.LayerNorm(768)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.words(tokens)
        for layer in self.layers:
            found = layer(found)
        return self.norm(found) @ self.words.weight.T


class _Layer(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.attention(self.norm_1(x)).chunk(3, -1)
        x = x + self.projection(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm_2(x))))


def gradients(model: nn.Module, example: torch.Tensor) -> tuple[float, list[tuple[str, int, float]]]:
    """Return a step's multiplications for one example, and the gradients in backward's order.

    A gradient is (name, elements, fraction of the step's computation after which it is there).
    """
    work: list[tuple[str, nn.Module, float]] = []
    for name, module in model.named_modules():
        if any(True for _ in module.parameters(recurse=False)):

            def note(module: nn.Module, _: Any, output: torch.Tensor, name: str = name) -> None:
                weight = getattr(module, "weight", None)
                each = output.numel() // output.shape[0] if isinstance(module, nn.Conv2d | nn.Linear) else 0
                per_output = weight[0].numel() if each and isinstance(weight, torch.Tensor) else 0
                work.append((name, module, float(each * per_output)))

            module.register_forward_hook(note)
    model(example)
    total = (1 + BACKWARD) * sum(count for _, _, count in work)
    done = total / (1 + BACKWARD)
    found = []
    for name, module, count in reversed(work):
        done += BACKWARD * count
        for part, parameter in reversed(list(module.named_parameters(prefix=name, recurse=False))):
            found.append((part, parameter.numel(), round(min(1.0, done / total), 6)))
    return total, found


def main() -> None:
    makers: dict[str, tuple[Callable[[], nn.Module], Callable[[], torch.Tensor]]] = {
        name: (make, partial(torch.empty, 1, 3, pixels(name), pixels(name))) for name, make in NETWORKS.items()
    }
    makers["GPT-2"] = Transformer, lambda: torch.zeros(1, 1024, dtype=torch.int64)
    lines = []
    with torch.device("meta"):
        for name, (make, example) in makers.items():
            model = make().train()
            multiplications, found = gradients(model, example())
            assert sum(elements for _, elements, _ in found) == sum(p.numel() for p in model.parameters()), name
            model_of = {"multiplications": multiplications, "gradients": found}
            lines.append(f"{json.dumps(name)}: {json.dumps(model_of, separators=(',', ':'))}")
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
