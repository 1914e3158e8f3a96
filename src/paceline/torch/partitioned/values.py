"""The description of a value between two calls, for any number of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

Kind = Literal["tensor", "integer", "real", "truth", "integers", "size", "other"]


@dataclass(frozen=True)
class Value:
    """A value of the model's forward. Only tensors and numbers can be sent to another rank, and tuples of integers.

    dtype: torch's name of it. per_sample, constant: each dimension is `per_sample * samples + constant`.
    differentiable: whether gradients flow through it.
    """

    kind: Kind
    dtype: str = "int64"
    per_sample: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()
    differentiable: bool = False

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of the tensor that is sent."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def shape(self, samples: int) -> tuple[int, ...]:
        """The shape for a batch of this size."""
        return tuple(each * samples + rest for each, rest in zip(self.per_sample, self.constant, strict=True))

    def nbytes(self, samples: int) -> int:
        """The bytes for a batch of this size."""
        return math.prod(self.shape(samples)) * self.torch_dtype.itemsize


UNKNOWN = Value("other")


def value_of(one: Any, other: Any, samples: int, differentiable: bool) -> Value:
    """Return the value that was `one` for `samples` samples, and `other` for one sample more."""
    if type(one) in _PLAIN and isinstance(other, torch.Tensor) and one.layout == torch.strided and not one.is_quantized:
        per_sample = tuple(more - less for less, more in zip(one.shape, other.shape, strict=True))
        constant = tuple(size - each * samples for size, each in zip(one.shape, per_sample, strict=True))
        return Value("tensor", str(one.dtype).removeprefix("torch."), per_sample, constant, differentiable)
    if type(one) in _NUMBERS:
        return _NUMBERS[type(one)]
    if type(one) in (tuple, torch.Size) and type(other) is type(one) and len(one) == len(other):
        kind: Kind = "size" if isinstance(one, torch.Size) else "integers"
        return Value(kind, "int64", (0,), (len(one),)) if all(type(each) is int for each in one) else UNKNOWN
    return UNKNOWN


def sendable(value: Any) -> torch.Tensor:
    """A tensor, a number or a tuple of integers as a tensor of its own elements, bit for bit."""
    if isinstance(value, torch.Tensor):
        return value.resolve_conj().resolve_neg().contiguous()
    return torch.tensor(value, dtype=_NUMBERS.get(type(value), _NUMBERS[int]).torch_dtype)


def received(kind: Kind, sent: torch.Tensor) -> Any:
    """Return the value of this kind that was sent as `sent`."""
    if kind == "tensor":
        return sent
    found = sent.tolist()
    if kind in ("integers", "size"):
        return torch.Size(found) if kind == "size" else tuple(found)
    return found


_PLAIN = (torch.Tensor, torch.nn.Parameter)
_NUMBERS = {int: Value("integer"), float: Value("real", "float64"), bool: Value("truth", "bool")}


def sample_counts(batch: int, parts: int) -> list[int]:
    """The sizes of the microbatches: torch gives the first ones a sample more where they can't be equal."""
    least, more = divmod(batch, parts)
    return [least + (part < more) for part in range(parts)]


def batch_size(tensors: Sequence[torch.Tensor]) -> int:
    """The number of samples, which is the first dimension of each of these. Raises ValueError if they differ."""
    sizes = {tensor.shape[0] if tensor.dim() else 0 for tensor in tensors}
    if len(sizes) != 1 or 0 in sizes:
        shapes = ", ".join(str(list(tensor.shape)) for tensor in tensors)
        raise ValueError(f"the first dimension of all inputs is the batch, found shapes {shapes}")
    return sizes.pop()


def tensors_of(given: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """One tensor, or several, as a tuple."""
    return (given,) if isinstance(given, torch.Tensor) else tuple(given)


def split(target: Any, parts: int) -> list[Any]:
    """The targets of each microbatch, structured as `target`."""
    if isinstance(target, torch.Tensor):
        return list(torch.tensor_split(target, parts))
    return [tuple(some) for some in zip(*(torch.tensor_split(one, parts) for one in target), strict=True)]
