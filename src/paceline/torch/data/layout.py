"""A batch's layout in memory: a nested structure of tensors and arrays, described as JSON and read back with bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MAX_BYTES = 1 << 36
"""Bytes that a batch can have: 64 GiB."""
_LINE = 64
"""Bytes of a cache line, where each tensor begins."""
_MAX_DEPTH = 16
_MAX_LEAVES = 1024
_MAX_DIMENSIONS = 16
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.bool),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.complex64, torch.complex128),
    )
}
_HOLDS = (
    "a shared batch holds dense CPU tensors and arrays whose first dimension is the samples, in lists, tuples and "
    "dicts with keys of str or int: encode it as numbers, or leave it out in collate_fn"
)
_STACKED = "stack them to one tensor whose first dimension is the samples, or give fields of a batch in a tuple"
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclass(frozen=True)
class Layout:
    """The places of a batch's tensors in memory. All have the batch's samples as their first dimension.

    rows: the number of samples, spare ones included. nbytes: the memory that the batch needs. tree: the structure as
    JSON has it, where a tensor is `{"tensor": [dtype, shape without the first dimension, offset in bytes]}`; an array's
    key is "array".
    """

    rows: int
    nbytes: int
    tree: Any


@dataclass(frozen=True)
class Stack:
    """A tensor of a batch whose samples lie apart yet: dense CPU tensors of one shape and dtype."""

    samples: Sequence[Tensor]


def plan(batch: Any, spare: int = 0) -> tuple[Layout, list[Tensor | Stack]]:
    """Return the layout of a batch and its tensors in the order of their offsets; arrays come as tensors.

    spare: so many copies of the last sample come behind it. Raises TypeError for what a batch cannot hold, and
    ValueError if tensors differ in their first dimension.
    """
    planner = _Planner(spare)
    tree = planner.node(batch, "batch", 0)
    tensors = planner.tensors
    if not tensors:
        raise TypeError("the batch has no tensor")
    if len(tensors) > _MAX_LEAVES:
        raise TypeError(f"the batch has {len(tensors)} tensors; a shared batch has at most {_MAX_LEAVES}")
    rows = planner.rows[0]
    for count, place in zip(planner.rows, planner.places, strict=True):
        if count != rows:
            raise ValueError(
                f"{place} has {count} samples and {planner.places[0]} has {rows}: a batch is cut along the first "
                "dimension of all its tensors, which must be equal"
            )
    if planner.end > MAX_BYTES:
        raise ValueError(f"the batch has {planner.end} bytes; a shared batch has at most {MAX_BYTES}")
    return Layout(rows + spare, planner.end, tree), tensors


class _Planner:
    """Collects the tensors of a batch. (A recursive closure would be a cycle, which keeps their memory for a while.)"""

    def __init__(self, spare: int) -> None:
        self._spare = spare
        self.tensors: list[Tensor | Stack] = []
        self.rows: list[int] = []
        self.places: list[str] = []
        self.end = 0

    def node(self, value: Any, place: str, depth: int) -> Any:
        """Return the tree of a part of the batch. place: its name, for errors."""
        if depth > _MAX_DEPTH:
            raise TypeError(f"the batch is nested more than {_MAX_DEPTH} deep")
        if isinstance(value, Tensor):
            return self._leaf("tensor", value, place)
        if isinstance(value, Stack):
            self._check(value.samples[0], place)
            return self._add("tensor", value, value.samples[0], len(value.samples), place)
        if isinstance(value, np.ndarray):
            if value.dtype.name not in _DTYPES or not value.ndim:
                raise TypeError(f"{place} is an array of dtype {value.dtype} and shape {value.shape}; {_HOLDS}")
            return self._leaf("array", torch.from_numpy(np.ascontiguousarray(value)), place)
        if type(value) in (list, tuple):
            parts = [self.node(one, f"{place}[{index}]", depth + 1) for index, one in enumerate(value)]
            return {type(value).__name__: parts}
        if type(value) is dict and all(type(key) in (str, int) for key in value):
            return {"dict": [[key, self.node(one, f"{place}[{key!r}]", depth + 1)] for key, one in value.items()]}
        raise TypeError(f"{place} is of type {type(value).__name__}; {_HOLDS}")

    def _leaf(self, kind: str, tensor: Tensor, place: str) -> dict[str, Any]:
        self._check(tensor, place)
        if not tensor.dim():
            raise TypeError(f"{place} is a tensor of shape (); {_HOLDS}")
        return self._add(kind, tensor.detach(), tensor.new_empty(tensor.shape[1:]), len(tensor), place)

    def _check(self, tensor: Tensor, place: str) -> None:
        if tensor.dtype not in _NAMES or not tensor.is_cpu or tensor.layout != torch.strided:
            raise TypeError(f"{place} is a {tensor.layout} tensor of dtype {tensor.dtype} on {tensor.device}; {_HOLDS}")

    def _add(self, kind: str, value: Tensor | Stack, sample: Tensor, rows: int, place: str) -> dict[str, Any]:
        self.tensors.append(value)
        self.rows.append(rows)
        self.places.append(place)
        offset, self.end = self.end, -(-(self.end + (rows + self._spare) * sample.nbytes) // _LINE) * _LINE
        return {kind: [_NAMES[sample.dtype], list(sample.shape), offset]}


def write(layout: Layout, tensors: list[Tensor | Stack], memory: NDArray[np.uint8]) -> None:
    """Copy the tensors of `plan` into memory, uint8[at least layout.nbytes]. RuntimeError: samples differ in shape."""
    for tensor, (_, name, shape, offset) in zip(tensors, _leaves(layout.tree), strict=True):
        target = _tensor(memory, _DTYPES[name], (layout.rows, *shape), offset)
        rows = len(tensor.samples) if isinstance(tensor, Stack) else len(tensor)
        if isinstance(tensor, Stack):
            torch.stack([one.detach() for one in tensor.samples], out=target[:rows])
        else:
            target[:rows].copy_(tensor)
        if rows < layout.rows:
            target[rows:] = target[rows - 1]


def view(layout: Layout, memory: NDArray[np.uint8], begin: int, end: int) -> Any:
    """Return the samples from `begin` to `end` of the batch in memory, without a copy; all of it refers to `memory`."""
    return _viewed(layout.tree, layout.rows, memory, slice(begin, end))


def _viewed(tree: Any, rows: int, memory: NDArray[np.uint8], part: slice) -> Any:
    ((kind, content),) = tree.items()
    if kind in ("tensor", "array"):
        name, shape, offset = content
        tensor = _tensor(memory, _DTYPES[name], (rows, *shape), offset)[part]
        return tensor if kind == "tensor" else tensor.numpy()
    if kind == "dict":
        return {key: _viewed(one, rows, memory, part) for key, one in content}
    return (list if kind == "list" else tuple)(_viewed(one, rows, memory, part) for one in content)


def checked(rows: Any, nbytes: Any, tree: Any) -> Layout:
    """Return the layout with these fields, which came from another process. Raises ValueError if they make no sense."""
    if not _whole(rows, MAX_BYTES) or not _whole(nbytes, MAX_BYTES):
        raise ValueError(f"a batch of {str(rows)[:40]} samples and {str(nbytes)[:40]} bytes")
    leaves = list(_leaves(tree))
    if not 0 < len(leaves) <= _MAX_LEAVES:
        raise ValueError(f"a batch of {len(leaves)} tensors")
    for _, name, shape, offset in leaves:
        if not isinstance(name, str) or name not in _DTYPES or not isinstance(shape, list):
            raise ValueError(f"a tensor of dtype {str(name)[:40]!r} and shape {str(shape)[:80]}")
        if len(shape) >= _MAX_DIMENSIONS or not all(_whole(length, MAX_BYTES) for length in (*shape, offset)):
            raise ValueError(f"a tensor of shape {str(shape)[:80]} at {str(offset)[:40]}")
        count = rows
        for length in shape:
            count *= length
        if offset % _LINE or offset + count * _DTYPES[name].itemsize > nbytes:
            raise ValueError(f"a tensor of shape {shape} at {offset} that ends behind the batch's {nbytes} bytes")
    return Layout(rows, nbytes, tree)


def require_fields(batch: Any, count: int, fewer: Callable[[], Any]) -> None:
    """Raise TypeError if a list in a batch of `count` samples is a list of samples, which would be cut in each sample.

    fewer: makes the same batch of one sample less; it is called if a list has as many tensors as there are samples.
    """
    lists = _lists(batch, "batch")
    suspects = [place for place, found in lists.items() if len(found) == count]
    shorter = _lists(fewer(), "batch") if suspects else {}
    for place in suspects:
        if len(shorter.get(place, ())) == count - 1:
            raise TypeError(f"{place} is a list with a tensor for each sample: {_STACKED}")


def refuse_images(batch: Any) -> None:
    """Raise TypeError if a list in a batch looks like one of images, whose channels would be taken for samples."""
    for place, found in _lists(batch, "batch").items():
        shapes = {tuple(one.shape) for one in found}
        if len(found) > 1 and all(len(shape) == 3 and shape[0] in (1, 3, 4) for shape in shapes):
            raise TypeError(
                f"{place} is a list of {len(found)} tensors of shape {min(shapes)}, as of images: {_STACKED}"
            )


def _lists(value: Any, place: str) -> dict[str, list[Any]]:
    """The lists in a batch that have nothing but tensors and arrays, by place."""
    if isinstance(value, dict):
        parts = {f"{place}[{key!r}]": one for key, one in value.items()}
    elif isinstance(value, (list, tuple)):
        parts = {f"{place}[{index}]": one for index, one in enumerate(value)}
    else:
        return {}
    found = {place: list(value)} if type(value) is list and value and all(map(_is_leaf, value)) else {}
    for at, one in parts.items():
        found |= _lists(one, at)
    return found


def _is_leaf(value: Any) -> bool:
    return isinstance(value, (Tensor, np.ndarray)) and value.ndim > 0


def copied(batch: Any) -> Any:
    """Return the batch with tensors and arrays of its own; anything else in it is shared."""
    if isinstance(batch, Tensor):
        return batch.detach().clone()
    if isinstance(batch, np.ndarray):
        return batch.copy()
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(copied, batch))
    if type(batch) in (list, tuple):
        return type(batch)(map(copied, batch))
    if isinstance(batch, dict):
        return {key: copied(value) for key, value in batch.items()}
    return batch


def samples(batch: Any) -> int:
    """Return the number of samples in a batch: the length of its first tensor or array.

    Raises TypeError if there is none.
    """
    if isinstance(batch, (Tensor, np.ndarray)) and batch.ndim:
        return len(batch)
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)) and batch:
        return samples(batch[0])
    raise TypeError(f"a batch of type {type(batch).__name__} does not begin with a tensor, whose length is its samples")


def _leaves(tree: Any, depth: int = 0) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield kind, name of the dtype, shape and offset of each tensor; the structure is checked on the way."""
    if depth > _MAX_DEPTH or not isinstance(tree, dict) or len(tree) != 1:
        raise ValueError("a batch of unknown structure")
    ((kind, content),) = tree.items()
    if not isinstance(content, list):
        raise ValueError("a batch of unknown structure")
    if kind in ("tensor", "array") and len(content) == 3:
        yield kind, *content
    elif kind in ("list", "tuple"):
        for one in content:
            yield from _leaves(one, depth + 1)
    elif kind == "dict":
        for pair in content:
            if not isinstance(pair, list) or len(pair) != 2 or type(pair[0]) not in (str, int):
                raise ValueError("a batch of unknown structure")
            yield from _leaves(pair[1], depth + 1)
    else:
        raise ValueError(f"a batch that contains {str(kind)[:40]!r}")


def _whole(value: Any, highest: int) -> bool:
    return type(value) is int and 0 <= value <= highest


def _tensor(memory: NDArray[np.uint8], dtype: torch.dtype, shape: tuple[int, ...], offset: int) -> Tensor:
    count = 1
    for length in shape:
        count *= length
    if not count:
        return torch.empty(shape, dtype=dtype)
    return torch.from_numpy(memory[offset : offset + count * dtype.itemsize]).view(dtype).view(shape)
