"""Python objects as bytes, without pickle: reading them back makes data of known types and runs nothing.

An object becomes a header, which is JSON, and blobs, which are the memory of its arrays and bytes. In the header a list
[tag, …] stands for everything but None, bool, int, float and str.
"""

from __future__ import annotations

import json
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Blob = NDArray[np.uint8]

_DEEPEST = 200


@dataclass(frozen=True, slots=True)
class Kind:
    """Objects of one more type. `split` gives what JSON can hold and memory; `join` makes the object of these."""

    tag: str
    type: type
    split: Callable[[Any], tuple[Any, NDArray[Any]]]
    join: Callable[[Any, Blob], Any]


def bytes_of(array: NDArray[Any]) -> Blob:
    """The memory of an array; a copy only if it is not contiguous."""
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
    """The header and the blobs of `value`. `kinds`: known types beside NumPy's and Python's own.

    What may be in it: None, bool, int, float, complex, str, bytes, bytearray, list, tuple, set, frozenset, dict,
    OrderedDict, Counter, range, NumPy arrays and scalars of plain dtypes, and `kinds`; exactly these types, not
    subclasses. An object that is there twice becomes two. Raises TypeError naming the place of anything else.
    """
    blobs: list[Blob] = []
    by_type = {kind.type: kind for kind in (*KINDS, *kinds)}

    def write(item: Any, place: str, depth: int) -> Any:
        if depth > _DEEPEST:
            raise TypeError(f"the object holds itself, or is nested deeper than {_DEEPEST}, at {place[:200]}")
        cls = type(item)
        if item is None or cls in (bool, int, float, str):
            return item
        if cls in _TAGS and cls in _MAPPINGS.values():
            pairs = enumerate(item.items())
            return [
                _TAGS[cls],
                *(
                    [write(k, f"{place} key {n}", depth + 1), write(v, f"{place}[{k!r}]", depth + 1)]
                    for n, (k, v) in pairs
                ),
            ]
        if cls in _TAGS:
            return [_TAGS[cls], *(write(each, f"{place}[{n}]", depth + 1) for n, each in enumerate(item))]
        if cls is complex:
            return ["complex", item.real, item.imag]
        if cls is range:
            return ["range", item.start, item.stop, item.step]
        if isinstance(item, np.generic) and _is_plain(item.dtype):
            return ["scalar", *_leaf(np.asarray(item), by_type[np.ndarray])]
        kind = by_type.get(cls)
        if kind is None or (cls is np.ndarray and not _is_plain(item.dtype)):
            raise TypeError(_refusal(item, place))
        return [kind.tag, *_leaf(item, kind)]

    def _leaf(item: Any, kind: Kind) -> tuple[Any, int]:
        meta, memory = kind.split(item)
        blobs.append(bytes_of(memory))
        return meta, len(blobs) - 1

    tree = write(value, "object", 0)
    return json.dumps([tree, [blob.size for blob in blobs]], separators=(",", ":")).encode(), blobs


def sizes(header: bytes) -> list[int]:
    """How many bytes each of its blobs has."""
    return [int(size) for size in json.loads(header)[1]]


def unpack(header: bytes, blobs: Sequence[Blob], kinds: Iterable[Kind] = ()) -> Any:
    """The object again; its arrays lie in the blobs. Raises ValueError for what `pack` did not write."""
    by_tag = {kind.tag: kind for kind in (*KINDS, *kinds)}

    def read(item: Any) -> Any:
        if not isinstance(item, list):
            return item
        tag, *rest = item
        if tag in _SEQUENCES:
            return _SEQUENCES[tag](map(read, rest))
        if tag in _MAPPINGS:
            return _MAPPINGS[tag]({read(key): read(value) for key, value in rest})
        if tag == "complex":
            return complex(*rest)
        if tag == "range":
            return range(*rest)
        if tag == "scalar":
            return _array(rest[0], blobs[rest[1]])[()]
        if tag in by_tag:
            return by_tag[tag].join(rest[0], blobs[rest[1]])
        raise ValueError(f"unknown tag {tag!r}")

    return read(json.loads(header)[0])


def _refusal(item: Any, place: str) -> str:
    cls = type(item)
    hint = "; vars(...) of it may be data" if hasattr(item, "__dict__") and not isinstance(item, type) else ""
    return (
        f"{place[:200]} is a {cls.__module__}.{cls.__qualname__}, which is not sent between ranks, because unpickling "
        "runs code: only plain data is (numbers, strings, bytes, lists, tuples, sets, dicts, NumPy arrays, "
        f"tensors){hint}"
    )
