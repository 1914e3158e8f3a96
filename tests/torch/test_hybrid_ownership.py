"""Which parameters and buffers a stage needs, and that it keeps them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.partitioned.ownership import entries, keep_only
from paceline.torch.partitioned.trace import trace

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")


class Positions(nn.Module):
    """A table in no state dict, used on both sides of a cut, and ids used before it."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.last = nn.Embedding(4, 4), nn.Linear(4, 4)
        self.register_buffer("ids", torch.arange(4), persistent=False)
        self.register_buffer("table", torch.rand(4), persistent=False)
        self.register_buffer("saved", torch.rand(4))

    def forward(self, x: Tensor) -> Tensor:
        x = x * self.table + self.embedding(self.ids).sum(0)
        result: Tensor = self.last(x) * self.table * self.saved
        return result


def test_buffers_that_are_not_saved_have_stages_too() -> None:
    model = Positions()
    graph = trace(model, 1)
    found = entries(graph, [graph.names.index("add") + 1, len(graph.calls)])
    assert [name for name, entry in found.items() if entry.saved] == list(model.state_dict())
    stages = {name: entry.stages for name, entry in found.items()}
    assert (stages["ids"], stages["table"], stages["saved"]) == ((0,), (0, 1), (1,))
    keep_only(model, {entry.identity for entry in found.values() if 1 in entry.stages})
    assert {name for name, one in model.named_buffers() if one.is_meta} == {"ids"}
