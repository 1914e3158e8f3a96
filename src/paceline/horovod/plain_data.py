"""Serialises plain Python objects without pickle: reading them back creates data of known types and runs no code.

An object becomes a JSON header and blobs, which hold the memory of its arrays and bytes. In the header a list [tag, …]
stands for anything but None, bool, int, float and str.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Blob = NDArray[np.uint8]
"""The memory of one array: one-dimensional uint8."""

_MAX_DEPTH = 200
"""Levels of nesting; deeper objects, such as one that contains itself, are refused."""


@dataclass(frozen=True, slots=True)
class Kind:
    """The serialisation of objects of one further type.

    tag: the type's name in the header. split: returns a JSON value and an array of any dtype. join: makes the object
    again from that JSON value and the array's memory as uint8.
    """

    tag: str
    type: type
    split: Callable[[Any], tuple[Any, NDArray[Any]]]
    join: Callable[[Any, Blob], Any]


def bytes_of(array: NDArray[Any]) -> Blob:
    """Return the memory of an array as uint8; it is a copy only if the array is not contiguous."""
    memory: Blob = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return memory


def _array(meta: Any, blob: Blob) -> NDArray[Any]:
    dtype = np.dtype(meta[0])
    if not _is_plain(dtype):
        raise ValueError(f"arrays of {dtype} are not data")
    array: NDArray[Any] = blob.view(dtype).reshape(meta[1])
    return array


def _is_plain(dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "OV"


KINDS = (
    Kind("array", np.ndarray, lambda a: ([a.dtype.str, list(a.shape)], a), _array),
    Kind("bytes", bytes, lambda b: (None, np.frombuffer(b, np.uint8)), lambda _, blob: blob.tobytes()),
    Kind(
        "bytearray", bytearray, lambda b: (None, np.frombuffer(bytes(b), np.uint8)), lambda _, b: bytearray(b.tobytes())
    ),
)

_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_MAPPINGS: dict[str, type] = {"dict": dict, "ordered": OrderedDict, "counter": Counter}
_TAGS = {kind: tag for tag, kind in (*_SEQUENCES.items(), *_MAPPINGS.items())}


def pack(value: Any, kinds: Iterable[Kind] = ()) -> tuple[bytes, list[Blob]]:
    """Return the header and the blobs of `value`.

    kinds: types to accept beside Python's and NumPy's own.

    `value` may consist of None, bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict,
    OrderedDict, Counter, range, NumPy arrays and scalars of plain dtypes, and `kinds`: exactly these types, not their
    subclasses. An object that occurs twice becomes two objects. Raises TypeError for anything else; the message says
    where in `value` it is.
    """
    writer = _Writer(kinds)
    tree = writer.write(value, "object", 0)
    return json.dumps([tree, [blob.size for blob in writer.blobs]], separators=(",", ":")).encode(), writer.blobs


class _Writer:
    # Not functions in `pack`: those would hold each other, and with them the blobs, until a garbage collection.

    def __init__(self, kinds: Iterable[Kind]) -> None:
        self.blobs: list[Blob] = []
        self._by_type = {kind.type: kind for kind in (*KINDS, *kinds)}

    def write(self, item: Any, place: str, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise TypeError(f"the object holds itself or is nested deeper than {_MAX_DEPTH}, at {place[:200]}")
        cls = type(item)
        if item is None or cls in (bool, int, float, str):
            return item
        if cls in _TAGS and cls in _MAPPINGS.values():
            return [_TAGS[cls], *(self._pair(n, pair, place, depth + 1) for n, pair in enumerate(item.items()))]
        if cls in _TAGS:
            return [_TAGS[cls], *(self.write(each, f"{place}[{n}]", depth + 1) for n, each in enumerate(item))]
        if cls is complex:
            return ["complex", item.real, item.imag]
        if cls is range:
            return ["range", item.start, item.stop, item.step]
        if isinstance(item, np.generic) and _is_plain(item.dtype):
            return ["scalar", *self._leaf(np.asarray(item), self._by_type[np.ndarray])]
        kind = self._by_type.get(cls)
        if kind is None or (cls is np.ndarray and not _is_plain(item.dtype)):
            raise TypeError(_refusal(item, place))
        return [kind.tag, *self._leaf(item, kind)]

    def _pair(self, number: int, pair: tuple[Any, Any], place: str, depth: int) -> list[Any]:
        key, value = pair
        return [self.write(key, f"{place} key {number}", depth), self.write(value, f"{place}[{key!r}]", depth)]

    def _leaf(self, item: Any, kind: Kind) -> tuple[Any, int]:
        meta, memory = kind.split(item)
        self.blobs.append(bytes_of(memory))
        return meta, len(self.blobs) - 1


def sizes(header: bytes) -> list[int]:
    """Return the size in bytes of each blob that belongs to this header."""
    return [int(size) for size in json.loads(header)[1]]


def unpack(header: bytes, blobs: Sequence[Blob], kinds: Iterable[Kind] = ()) -> Any:
    """Return the object again; its arrays share the memory of the blobs.

    Raises ValueError for a header with an unknown tag.
    """
    return _read(json.loads(header)[0], blobs, {kind.tag: kind for kind in (*KINDS, *kinds)})


def _read(item: Any, blobs: Sequence[Blob], kinds: Mapping[str, Kind]) -> Any:
    if not isinstance(item, list):
        return item
    tag, *rest = item
    if tag in _SEQUENCES:
        return _SEQUENCES[tag](_read(each, blobs, kinds) for each in rest)
    if tag in _MAPPINGS:
        return _MAPPINGS[tag]({_read(key, blobs, kinds): _read(value, blobs, kinds) for key, value in rest})
    if tag == "complex":
        return complex(*rest)
    if tag == "range":
        return range(*rest)
    if tag == "scalar":
        return _array(rest[0], blobs[rest[1]])[()]
    if tag in kinds:
        return kinds[tag].join(rest[0], blobs[rest[1]])
    raise ValueError(f"unknown tag {tag!r}")


def _refusal(item: Any, place: str) -> str:
    cls = type(item)
    hint = "; vars(...) of it may be data" if hasattr(item, "__dict__") and not isinstance(item, type) else ""
    return (
        f"{place[:200]} is a {cls.__module__}.{cls.__qualname__}, which is not sent between ranks, because unpickling "
        "runs code. Only plain data is sent (numbers, strings, bytes, lists, tuples, sets, dicts, NumPy arrays, "
        f"tensors){hint}"
    )
