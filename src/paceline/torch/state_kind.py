"""The states that an optimizer keeps for a parameter, said in a few words that can be sent."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Kind(NamedTuple):
    """The kind of one state of a parameter, or of a piece of one: as many elements as that has, or a number.

    dtype: the name of the elements', or of the number's; empty for a number of Python's.
    """

    elements: bool
    dtype: str = ""
    number: bool | int | float | None = None


def kind_of(key: str, value: object, shape: torch.Size) -> Kind:
    """Return what the state `key` of a parameter of this shape is. Raises TypeError for what can't be put together."""
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        if value.shape == shape:
            return Kind(True, dtype)
        if value.dim() == 0:
            return Kind(False, dtype, value.item())
    elif value is None or isinstance(value, (bool, int, float)):
        return Kind(False, number=value)
    raise TypeError(f"the state {key!r}, {type(value).__name__}, is neither a number nor of its parameter's shape")


def number_of(kind: Kind) -> object:
    """Return the number: a tensor, or Python's own."""
    return torch.tensor(kind.number, dtype=getattr(torch, kind.dtype)) if kind.dtype else kind.number
