"""Doing the calls of a traced model one by one."""

from __future__ import annotations

from typing import Any

from torch import Tensor, fx, nn


def run(root: nn.Module, call: fx.Node, args: Any, kwargs: Any) -> Any:
    """Do one call."""
    if call.op == "call_module":
        return root.get_submodule(str(call.target))(*args, **kwargs)
    if call.op == "call_method":
        return getattr(args[0], str(call.target))(*args[1:], **kwargs)
    assert callable(call.target)
    return call.target(*args, **kwargs)


def tensors_in(structure: Any) -> list[Tensor]:
    """The tensors in tuples, lists and dicts."""
    found: list[Tensor] = []
    fx.node.map_aggregate(structure, lambda value: found.append(value) if isinstance(value, Tensor) else None)
    return found
