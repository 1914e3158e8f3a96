"""Arguments of the raw face: what they mean to the engine, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import SupportsIndex, overload

from paceline import _engine
from paceline.group.buffers import DTYPES, Array, Buffer
from paceline.group.on_device import DeviceArray, writable

OPS: dict[str, int] = {name.lower(): number for name, number in _engine.OPS.items()}
CODECS: dict[str, int] = _engine.CODECS


def whole(value: SupportsIndex, name: str, bits: int = 64) -> int:
    """`value` as an int. Raises TypeError if it is no int, ValueError if it needs more than `bits` bits."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{name} must fit into {bits} bits, got {number}")
    return number


def real(value: float, name: str) -> float:
    """`value` as a float. Raises TypeError if it is no number."""
    try:
        return float(value + 0.0)
    except TypeError:
        raise TypeError(f"{name} must be a number, got {value!r}") from None


def reduction(name: str) -> int:
    """The engine's number of the reduction that is called so. Raises ValueError for a name that is not in `OPS`."""
    try:
        return OPS[name]
    except (KeyError, TypeError):  # a TypeError for what cannot be a key
        raise ValueError(f"no such reduction: {name!r}; use one of {', '.join(OPS)}") from None


def encoding(name: str | None) -> int:
    """The engine's number of the codec that is called so; -1 for None. Raises ValueError if there is no such codec."""
    try:
        return -1 if name is None else CODECS[name]
    except (KeyError, TypeError):
        raise ValueError(f"no such codec: {name!r}; use one of {', '.join(CODECS)}") from None


@overload
def feedback(value: Array | None, data: DeviceArray) -> DeviceArray | None: ...
@overload
def feedback(value: Array | None, data: Buffer) -> Buffer | None: ...
def feedback(value: Array | None, data: Buffer) -> Buffer | None:
    """The residual that goes with `data`.

    Raises TypeError or ValueError unless it is as many elements of float32, in a device's memory if `data` is.
    """
    if value is None:
        return None
    found = writable(value)
    if isinstance(found, DeviceArray) is not isinstance(data, DeviceArray):
        raise TypeError("array and residual must both lie in the memory of a device, or both in the host's")
    if found.dtype != DTYPES["float32"]:
        raise TypeError(f"a residual is of dtype float32, not {found.dtype_name}")
    if found.count != data.count:
        raise ValueError(f"the residual must hold {data.count} elements as the array does, not {found.count}")
    return found


def refuse(factor: float = 1.0, **others: SupportsIndex) -> None:
    """Raise TypeError or ValueError for the argument that the engine refused, with its name.

    It is called only after the engine has refused one, so that a small call pays nothing for the check.
    """
    real(factor, "factor")
    for name, value in others.items():
        whole(value, name, bits=32)


def needed(value: Array | None, name: str, collective: str) -> Array:
    """`value`, which the root of a collective must give. Raises ValueError if it is None."""
    if value is None:
        raise ValueError(f"the root of a {collective} must give `{name}`")
    return value


def matched(larger: Buffer, other: Buffer, count: int, name: str) -> None:
    """Raises TypeError for two dtypes, and if one buffer is a device's and the other one the host's.

    Raises ValueError unless the larger buffer, called `name`, has `count` elements.
    """
    if isinstance(larger, DeviceArray) is not isinstance(other, DeviceArray):
        raise TypeError("input and output must both lie in the memory of a device, or both in the host's")
    if larger.dtype != other.dtype:
        raise TypeError(f"input and output must have the same dtype, not {larger.dtype_name} and {other.dtype_name}")
    if larger.count != count:
        raise ValueError(f"{name} must hold {count} elements, not {larger.count}")


def blocks(buffer: Buffer, counts: Sequence[int] | None, size: int, name: str) -> list[tuple[int, int]]:
    """The address and the elements of every rank's block in `buffer`; without `counts` all blocks are equal.

    counts: the elements of each block. Raises TypeError if they are no whole numbers, ValueError if they are not `size`
    numbers that add up to the buffer's elements.
    """
    if counts is None:
        if buffer.count % size:
            raise ValueError(f"{name} has {buffer.count} elements, which {size} ranks cannot share equally")
        counts = [buffer.count // size] * size
    elif isinstance(counts, Iterable):
        counts = [whole(count, f"each of {name} counts") for count in counts]
    else:
        raise TypeError(f"{name} counts must be a whole number for every rank, got {counts!r}")
    if len(counts) != size or sum(counts) != buffer.count or min(counts) < 0:
        raise ValueError(f"{name} counts must be {size} numbers that add up to {buffer.count}")
    width = _engine.SIZES[buffer.dtype]
    found, start = [], buffer.address
    for count in counts:
        found.append((start, count))
        start += count * width
    return found
