"""The names of an optimizer's parameters, by which the ranks' gradients are matched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from torch.nn import Parameter


def parameter_names(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, Parameter]] | None
) -> dict[Parameter, str]:
    """Return a name for every parameter of the optimizer: the given name, or one made of its position if none are
    given.

    Raises ValueError for entries that are not tuples, for a repeated name, and if a parameter of the optimizer has no
    name.
    """
    own = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    if named_parameters is None:
        return {
            parameter: f"allreduce.noname.{i}.{j}"
            for i, group in enumerate(optimizer.param_groups)
            for j, parameter in enumerate(group["params"])
        }
    pairs: list[Any] = list(named_parameters)
    if any(not isinstance(pair, tuple) for pair in pairs):
        raise ValueError(
            "named_parameters should be a sequence of tuples (name, parameter), usually produced by "
            "model.named_parameters()."
        )
    twice = sorted(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
    if twice:
        raise ValueError(
            f"Parameter names in named_parameters must be unique. Found duplicates: {', '.join(map(str, twice))}"
        )
    names = {parameter: str(name) for name, parameter in pairs}
    nameless = [tuple(parameter.shape) for parameter in own if parameter not in names]
    if nameless:
        raise ValueError(
            "named_parameters was specified, but one or more model parameters were not named; their shapes: "
            f"{', '.join(map(str, nameless))}"
        )
    return names
