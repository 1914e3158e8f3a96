"""Outlines for comparing the values of two runs: sums of their elements, so that none of these need be kept."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, fx, nn

_TOLERANCE = {torch.float64: 1e-9, torch.complex128: 1e-9, torch.float32: 1e-4, torch.complex64: 1e-4}
"""The rounding by which two runs of the same operations may differ, relative to the sum of magnitudes."""
_COARSE = 5e-2
"""That of all other dtypes with fractions."""
_MANY = 200
"""Elements of a container beyond which only their number counts."""


class Outline(NamedTuple):
    """The outline of a tensor. function: autograd's that made it. weighted, magnitude: sums of its elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    requires_grad: bool
    function: str
    weighted: float
    magnitude: float


def outline(value: Any) -> object:
    """Return the outline of a tensor, a number, a string, or a structure of some; of anything else its type."""
    if isinstance(value, Tensor):
        return _of_tensor(value)
    if value is None or isinstance(value, (bool, int, float, complex, str)):
        return value
    if isinstance(value, (list, tuple)) and len(value) <= _MANY:
        return tuple(map(outline, value))
    if isinstance(value, dict) and len(value) <= _MANY:
        return tuple((outline(key), outline(one)) for key, one in value.items())
    return type(value)


def outlines(parts: Iterable[Any]) -> tuple[object, ...]:
    """Return the outlines of some values, without functions and modules."""
    return tuple(outline(one) for one in parts if isinstance(one, (Tensor, fx.Node)) or not _code(one))


def same(one: Any, other: Any) -> bool:
    """Return whether these are outlines of the same values, but for rounding."""
    if isinstance(one, Outline) and isinstance(other, Outline):
        if one[:4] != other[:4]:
            return False
        if not (one.dtype.is_floating_point or one.dtype.is_complex):
            return one[4:] == other[4:]
        allowed = _TOLERANCE.get(one.dtype, _COARSE) * max(one.magnitude, other.magnitude)
        return all(_close(mine, their, allowed) for mine, their in zip(one[4:], other[4:], strict=True))
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return _close(one, other, 1e-9 * abs(one))
    return bool(type(one) is type(other) and one == other)


def _of_tensor(tensor: Tensor) -> Outline:
    function = tensor.grad_fn.name() if tensor.grad_fn is not None else ""
    weighted = magnitude = 0.0
    if tensor.layout == torch.strided and not tensor.is_quantized and not tensor.is_meta:
        values = tensor.detach()
        if values.is_complex():
            values = torch.view_as_real(values.resolve_conj())
        values = values.reshape(-1).double()
        weighted = float(values @ torch.linspace(1, 2, len(values), dtype=torch.float64))
        magnitude = float(values.abs().sum())
    return Outline(tensor.dtype, tuple(tensor.shape), tensor.requires_grad, function, weighted, magnitude)


def _close(one: float, other: float, allowed: float) -> bool:
    if math.isnan(one) or math.isnan(other) or math.isinf(one) or math.isinf(other):
        return repr(one) == repr(other)
    return abs(one - other) <= allowed


def _code(value: object) -> bool:
    return isinstance(value, (nn.Module, type)) or callable(value)
