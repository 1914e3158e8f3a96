"""The states of the ranks' optimizers as those of one optimizer of the whole model, and the other way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.ownership import Entry
from paceline.torch.sharded.gather_bytes import gather_bytes
from paceline.torch.state_kind import Kind, kind_of, number_of


def gathered_optimizer(
    optimizer: Optimizer | None,
    names: Sequence[str],
    own: Mapping[str, nn.Parameter],
    entries: Mapping[str, Entry],
    owner: Callable[[Entry], int],
) -> dict[str, Any]:
    """The whole state, as `state_dict` of an optimizer of the whole model's parameters. A collective of all ranks.

    optimizer: this rank's; None if it has no parameters. names: of all parameters, in order. own: those of this rank.
    Raises HybridError if a rank's optimizer has several groups, TypeError for states that are neither numbers nor of
    their parameter's shape.
    """
    (group,) = _groups(optimizer) or [{}]
    options = {key: value for key, value in group.items() if key not in ("params", "param_names")}
    states = optimizer.state if optimizer is not None else {}
    mine = {
        name: {key: kind_of(key, value, parameter.shape) for key, value in states.get(parameter, {}).items()}
        for name, parameter in own.items()
        if owner(entries[name]) == dist.get_rank()
    }
    told = [json.loads(text) for text in gather_bytes(json.dumps([options, mine]).encode(), None)]
    kinds = {name: found for _, theirs in told for name, found in theirs.items()}
    whole: dict[int, dict[str, object]] = {}
    for index, name in enumerate(names):
        for key, kind in ((key, Kind(*kind)) for key, kind in kinds.get(name, {}).items()):
            whole.setdefault(index, {})[key] = (
                _sent(states[own[name]][key] if name in mine else None, entries[name], kind, owner)
                if kind.elements
                else number_of(kind)
            )
    first: dict[str, Any] = next((options for options, _ in told if options), {})
    usual = {key: tuple(value) if isinstance(value, list) else value for key, value in first.items()}  # as Adam's betas
    return {"state": whole, "param_groups": [{**usual, "params": list(range(len(names)))}]}


def own_optimizer_state(
    state: Mapping[str, Any], names: Sequence[str], own: Sequence[str], optimizer: Optimizer
) -> dict[str, Any]:
    """This rank's part of the whole state, for its optimizer's `load_state_dict`. own: the names of its parameters.

    Raises HybridError if the state has another number of parameters, or if it or the optimizer has several groups.
    """
    if len(state["param_groups"]) != 1 or len(_groups(optimizer)) != 1:
        raise HybridError("the optimizer of a model in partitions has one group of parameters")
    (group,) = state["param_groups"]
    if len(group["params"]) != len(names):
        raise HybridError(f"the optimizer's state is of {len(group['params'])} parameters, the model has {len(names)}")
    place = dict(zip(names, group["params"], strict=True))
    found = {index: state["state"][place[name]] for index, name in enumerate(own) if place[name] in state["state"]}
    return {"state": found, "param_groups": [{**group, "params": list(range(len(own)))}]}


def _groups(optimizer: Optimizer | None) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = optimizer.param_groups if optimizer is not None else []
    if len(groups) > 1:
        raise HybridError(f"the optimizer of a model in partitions has one group of parameters, found {len(groups)}")
    return groups


def _sent(mine: object, entry: Entry, kind: Kind, owner: Callable[[Entry], int]) -> Tensor:
    """The owner's tensor, on every rank."""
    dtype: torch.dtype = getattr(torch, kind.dtype)
    tensor = mine.detach().clone() if isinstance(mine, Tensor) else torch.empty(entry.shape, dtype=dtype)
    dist.broadcast(tensor, owner(entry))
    return tensor
