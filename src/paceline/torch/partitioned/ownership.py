"""The parameters and buffers that each partition of a model needs, and freeing those that this rank does not need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from paceline.torch.partitioned.graph import Graph


@dataclass(frozen=True)
class Entry:
    """A parameter or buffer of the model: the stages that need it, ascending, what it is, and whether it is saved.

    Buffers that are not persistent are in no state dict.
    """

    stages: tuple[int, ...]
    shape: torch.Size
    dtype: torch.dtype
    identity: int
    saved: bool = True


def entries(graph: Graph, ends: Sequence[int]) -> dict[str, Entry]:
    """Every parameter and buffer, those of the state dict first. What no call needs belongs to the first stage."""
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
        name: Entry(tuple(stages.get(id(tensor), [0])), tensor.shape, tensor.dtype, id(tensor), saved)
        for name, (tensor, saved) in tensors(graph.root).items()
    }


def tensors(model: nn.Module) -> dict[str, tuple[Tensor, bool]]:
    """Every parameter and buffer by its names, first those of the state dict, and whether it is one of these."""
    found = {name: (one, True) for name, one in model.state_dict(keep_vars=True).items() if isinstance(one, Tensor)}
    saved = {id(one) for one, _ in found.values()}
    for name, one in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        if id(one) not in saved:
            found.setdefault(name, (one, False))
    return found


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
