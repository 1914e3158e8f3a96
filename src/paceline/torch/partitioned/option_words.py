"""The options of an optimizer's groups of parameters, in words that JSON has, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from paceline.torch.partitioned.errors import HybridError


def in_words(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options as JSON takes them. Raises HybridError for what is not made of numbers, texts and tensors."""
    return {name: _words(name, value) for name, value in options.items()}


def from_words(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that `in_words` was given."""
    return {name: _value(words) for name, words in options.items()}


def _words(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return {"tensor": value.tolist(), "dtype": str(value.dtype).removeprefix("torch.")}
    if isinstance(value, (tuple, list)):
        return {"tuple" if isinstance(value, tuple) else "list": [_words(name, one) for one in value]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise HybridError(
        f"the optimizer's option {name!r} is of type {type(value).__name__}: the state of the whole model holds "
        "numbers, texts and tensors, and lists and tuples of them"
    )


def _value(words: Any) -> Any:
    if not isinstance(words, dict):
        return words
    if "tensor" in words:
        return torch.tensor(words["tensor"], dtype=getattr(torch, words["dtype"]))
    return tuple(map(_value, words["tuple"])) if "tuple" in words else list(map(_value, words["list"]))
