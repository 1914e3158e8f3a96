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
    differentiable: whether gradients flow through it. order: of its dimensions in memory, in which it is sent.
    """

    kind: Kind
    dtype: str = "int64"
    per_sample: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()
    differentiable: bool = False
    order: tuple[int, ...] = ()

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype of the tensor that is sent."""
        found: torch.dtype = getattr(torch, self.dtype)
        return found

    def shape(self, samples: int) -> tuple[int, ...]:
        """The shape for a batch of this size."""
        return tuple(each * samples + rest for each, rest in zip(self.per_sample, self.constant, strict=True))

    def sent_shape(self, samples: int) -> tuple[int, ...]:
        """The shape of what is sent for a batch of this size."""
        shape = self.shape(samples)
        return tuple(shape[place] for place in self.order) or shape

    def nbytes(self, samples: int) -> int:
        """The bytes for a batch of this size."""
        return math.prod(self.shape(samples)) * self.torch_dtype.itemsize


UNKNOWN = Value("other")


def value_of(one: Any, other: Any, samples: int, differentiable: bool) -> Value:
    """Return the value that was `one` for `samples` samples, and `other` for one sample more."""
    if type(one) in _PLAIN and isinstance(other, torch.Tensor) and one.layout == torch.strided and not one.is_quantized:
        per_sample = tuple(more - less for less, more in zip(one.shape, other.shape, strict=True))
        constant = tuple(size - each * samples for size, each in zip(one.shape, per_sample, strict=True))
        dtype = str(one.dtype).removeprefix("torch.")
        return Value("tensor", dtype, per_sample, constant, differentiable, _order(one))
    if type(one) in _NUMBERS:
        return _NUMBERS[type(one)]
    if type(one) in (tuple, torch.Size) and type(other) is type(one) and len(one) == len(other):
        kind: Kind = "size" if isinstance(one, torch.Size) else "integers"
        return Value(kind, "int64", (0,), (len(one),)) if all(type(each) is int for each in one) else UNKNOWN
    return UNKNOWN


def _order(tensor: torch.Tensor) -> tuple[int, ...]:
    """The dimensions from the outermost to the innermost, as operations on the tensor lay out what they make."""
    strides = torch.empty_like(tensor, device="meta").stride()
    return tuple(sorted(range(tensor.dim()), key=lambda place: -strides[place]))


def sendable(known: Value, value: Any) -> torch.Tensor:
    """A tensor, a number or a tuple of integers as a tensor of its own elements, bit for bit.

    Behind a cut it lies in memory as before it: what random numbers fall on which elements depends on that.
    """
    if isinstance(value, torch.Tensor):
        turned = value.permute(known.order) if known.order else value
        return turned.resolve_conj().resolve_neg().contiguous()
    return torch.tensor(value, dtype=_NUMBERS.get(type(value), _NUMBERS[int]).torch_dtype)


def received(known: Value, sent: torch.Tensor) -> Any:
    """Return the value of this kind that was sent as `sent`."""
    if known.kind == "tensor":
        return sent.permute([known.order.index(place) for place in range(sent.dim())]) if known.order else sent
    found = sent.tolist()
    if known.kind in ("integers", "size"):
        return torch.Size(found) if known.kind == "size" else tuple(found)
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
