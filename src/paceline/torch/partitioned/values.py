"""What a value between two calls is, for any number of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

Kind = Literal["tensor", "integer", "other"]


@dataclass(frozen=True)
class Value:
    """A value of the model's forward. Only tensors and integers can be sent to another rank.

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


def value_of(one: object, other: object, samples: int, differentiable: bool) -> Value:
    """What was `one` for `samples` samples, and `other` for one sample more."""
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.layout == torch.strided:
        per_sample = tuple(more - less for less, more in zip(one.shape, other.shape, strict=True))
        constant = tuple(size - each * samples for size, each in zip(one.shape, per_sample, strict=True))
        return Value("tensor", str(one.dtype).removeprefix("torch."), per_sample, constant, differentiable)
    if type(one) is int:
        return Value("integer")
    return Value("other")


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
