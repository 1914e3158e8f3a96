"""Values in any structure that a model may return: tuples, also named ones, dicts, data classes, objects."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor, fx, nn

_SINGLE = (Tensor, fx.Node, fx.Proxy, nn.Module, type)


def leaves(structure: Any) -> Iterator[Any]:
    """Yield what the structure is made of, in an order that only depends on its shape."""
    if isinstance(structure, _SINGLE) or callable(structure):
        yield structure
    elif isinstance(structure, Mapping):
        for value in structure.values():
            yield from leaves(value)
    elif isinstance(structure, (tuple, list)):
        for value in structure:
            yield from leaves(value)
    elif dataclasses.is_dataclass(structure):
        for field in dataclasses.fields(structure):
            yield from leaves(getattr(structure, field.name))
    elif hasattr(structure, "__dict__"):
        for value in vars(structure).values():
            yield from leaves(value)
    else:
        yield structure


def replaced(structure: Any, old: Sequence[Any], new: Sequence[Any]) -> Any:
    """Return a copy of the structure with new leaves in the places of old ones, which are told apart by identity."""
    given = {id(one): other for one, other in zip(old, new, strict=True)}
    if id(structure) in given:
        return given[id(structure)]
    return copy.deepcopy(structure, given)
