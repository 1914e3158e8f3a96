"""The states of the ranks' optimizers as those of one optimizer of the whole model, and the other way."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from paceline.torch.partitioned.errors import HybridError
from paceline.torch.partitioned.option_words import from_words, in_words
from paceline.torch.partitioned.ownership import Entry
from paceline.torch.sharded.gather_bytes import gather_bytes
from paceline.torch.state_kind import Kind, kind_of, number_of


@dataclass(frozen=True)
class OptimizerStates:
    """The states of the ranks' optimizers, which make one of an optimizer of the whole model.

    Each rank's optimizer has the same groups of parameters, of which some may be empty. Those of the whole have the
    parameters of all ranks, in the model's order.

    names: of all parameters, in the model's order. own: those of this rank. owner: the rank of which the whole state
    has what belongs to a parameter.
    """

    names: Sequence[str]
    own: Mapping[str, nn.Parameter]
    entries: Mapping[str, Entry]
    owner: Callable[[Entry], int]

    def whole(self, optimizer: Optimizer | None) -> dict[str, Any]:
        """The whole state, as the whole model's optimizer would return from `state_dict`. A collective of all ranks.

        optimizer: this rank's; None if it has no parameters. Raises HybridError if one is of another model, if they
        differ in their groups or an option can't be told, TypeError for states that are neither numbers nor of their
        parameter's shape.
        """
        states = optimizer.state if optimizer is not None else {}
        mine = {name: parameter for name, parameter in self.own.items() if self._owned(name)}

        def described() -> object:
            kinds = {
                name: {key: kind_of(key, value, parameter.shape) for key, value in states.get(parameter, {}).items()}
                for name, parameter in mine.items()
            }
            return [[in_words(_options(group)) for group in _groups(optimizer)], kinds]

        members = self._members(optimizer)
        told = _told(described)
        kinds = {name: found for _, theirs in told for name, found in theirs.items()}
        numbers = {name: number for number, name in enumerate(name for some in members for name in some)}
        found: dict[int, dict[str, object]] = {}
        for name, number in numbers.items():
            for key, kind in ((key, Kind(*kind)) for key, kind in kinds.get(name, {}).items()):
                found.setdefault(number, {})[key] = (
                    self._sent(states[self.own[name]][key] if name in mine else None, name, kind)
                    if kind.elements
                    else number_of(kind)
                )
        options: list[dict[str, Any]] = next((options for options, _ in told if options), [])
        groups = [
            {**from_words(group), "params": [numbers[name] for name in some]}
            for group, some in zip(options, members, strict=True)
        ]
        return {"state": found, "param_groups": groups}

    def part(self, optimizer: Optimizer | None, state: Mapping[str, Any]) -> dict[str, Any]:
        """This rank's part of a whole state, for its optimizer's `load_state_dict`. A collective of all ranks.

        Raises HybridError if it is no optimizer's state, if an optimizer is of another model, or if the state's groups
        are not as large as those of the optimizers.
        """
        found = _told(lambda: _sizes(state))[dist.get_rank()]
        members = self._members(optimizer)
        expected = [len(some) for some in members]
        if found != expected:
            raise HybridError(
                f"the optimizer's state has groups of {found} parameters, the optimizers of the model have {expected}"
            )
        numbers = {
            name: number
            for group, some in zip(state["param_groups"], members, strict=True)
            for name, number in zip(some, group["params"], strict=True)
        }
        mine: dict[int, Any] = {}
        groups: list[dict[str, Any]] = []
        place = 0
        for group, names in zip(state["param_groups"], self._named(optimizer), strict=False):
            groups.append({**_options(group), "params": list(range(place, place + len(names)))})
            for name in names:
                if numbers[name] in state["state"]:
                    mine[place] = state["state"][numbers[name]]
                place += 1
        return {"state": mine, "param_groups": groups}

    def _members(self, optimizer: Optimizer | None) -> list[list[str]]:
        """The names in each group of all ranks' optimizers together, in the model's order. A collective."""
        told = _told(lambda: [[name for name in names if self._owned(name)] for names in self._named(optimizer)])
        all_groups = [groups for groups in told if groups]
        if len(numbers := {len(groups) for groups in all_groups}) > 1:
            raise HybridError(
                "all optimizers of a model in partitions have the same groups of parameters, of which some may be "
                f"empty: found {' and '.join(map(str, sorted(numbers)))} groups"
            )
        places = {name: place for place, name in enumerate(self.names)}
        return [
            sorted((name for some in groups for name in some), key=places.__getitem__)
            for groups in zip(*all_groups, strict=True)
        ]

    def _named(self, optimizer: Optimizer | None) -> list[list[str]]:
        """The names in each group of this rank's optimizer. Raises HybridError if it is of another model."""
        names = {parameter: name for name, parameter in self.own.items()}
        every = [parameter for group in _groups(optimizer) for parameter in group["params"]]
        if others := [parameter for parameter in every if parameter not in names]:
            raise HybridError(
                f"{len(others)} of the {len(every)} parameters of the {type(optimizer).__name__} are none that this "
                f"rank trains, the first of shape {list(others[0].shape)}: make the optimizer of `parameters()` of "
                "what `hybrid` returned"
            )
        return [[names[parameter] for parameter in group["params"]] for group in _groups(optimizer)]

    def _owned(self, name: str) -> bool:
        return self.owner(self.entries[name]) == dist.get_rank()

    def _sent(self, mine: object, name: str, kind: Kind) -> Tensor:
        """The owner's tensor, on every rank."""
        entry, dtype = self.entries[name], getattr(torch, kind.dtype)
        tensor = mine.detach().clone() if isinstance(mine, Tensor) else torch.empty(entry.shape, dtype=dtype)
        dist.broadcast(tensor, self.owner(entry))
        return tensor


def _told(make: Callable[[], object]) -> list[Any]:
    """Gather from all ranks, through JSON, what each one's `make` returns. A collective.

    Where it raises an error, that rank raises it, and the others a HybridError that names the rank.
    """
    error: Exception | None = None
    try:
        mine = {"told": make()}
    except Exception as found:
        error, mine = found, {"refused": str(found)}
    everybodys = [json.loads(text) for text in gather_bytes(json.dumps(mine).encode(), None)]
    if error is not None:
        raise error
    for rank, one in enumerate(everybodys):
        if "refused" in one:
            raise HybridError(f"rank {rank}: {one['refused']}")
    return [one["told"] for one in everybodys]


def _sizes(state: Mapping[str, Any]) -> list[int]:
    """The number of parameters in each group of an optimizer's state. Raises HybridError for anything else."""
    try:
        state["state"]
        return [len(group["params"]) for group in state["param_groups"]]
    except (KeyError, TypeError) as error:
        raise HybridError(
            'this is no optimizer\'s state, which has "state" by parameter and "param_groups" with "params", as '
            f"optimizer_state_dict returns it: {error!r}"
        ) from None


def _groups(optimizer: Optimizer | None) -> list[dict[str, Any]]:
    return optimizer.param_groups if optimizer is not None else []


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in ("params", "param_names")}
