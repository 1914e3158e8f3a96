"""Which partitions need which of a model's parameters and buffers, and freeing those that this rank does not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from paceline.torch.partitioned.graph import Graph


@dataclass(frozen=True)
class Entry:
    """A tensor of the model's state dict: the stages that need it, ascending, what it is, and whether it is trained."""

    stages: tuple[int, ...]
    shape: torch.Size
    dtype: torch.dtype
    identity: int


def entries(graph: Graph, ends: Sequence[int]) -> dict[str, Entry]:
    """Every tensor of the model's state dict. What no call needs belongs to the first stage."""
    stages: dict[int, list[int]] = {}
    begin = 0
    for stage, end in enumerate(ends):
        for call in graph.calls[begin:end]:
            for tensor in graph.tensors(call):
                there = stages.setdefault(id(tensor), [])
                if stage not in there:
                    there.append(stage)
        begin = end
    return {
        name: Entry(tuple(stages.get(id(tensor), [0])), tensor.shape, tensor.dtype, id(tensor))
        for name, tensor in graph.root.state_dict(keep_vars=True).items()
        if isinstance(tensor, Tensor)
    }


def keep_only(model: nn.Module, kept: set[int]) -> None:
    """Free the memory of all parameters and buffers but these: they become tensors on torch's meta device.

    kept: by `id`.
    """
    freed: dict[int, Tensor] = {}

    def empty(tensor: Tensor) -> Tensor:
        if id(tensor) not in freed:
            nothing = torch.empty_like(tensor, device="meta")
            freed[id(tensor)] = (
                nn.Parameter(nothing, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else nothing
            )
        return freed[id(tensor)]

    for module in model.modules():
        for tensors in (module._parameters, module._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and id(tensor) not in kept:
                    tensors[name] = empty(tensor)  # type: ignore[assignment]
