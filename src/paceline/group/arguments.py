"""Arguments of the raw face: what they mean to the engine, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index
from typing import Any

from paceline import _engine
from paceline.group.buffers import Buffer

OPS: dict[str, int] = {name.lower(): number for name, number in _engine.OPS.items()}


def whole(value: Any, name: str, bits: int = 64) -> int:
    """An int or what stands for one, as NumPy's integers do. Raises TypeError, ValueError beyond so many bits."""
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, got {value!r}") from None
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{name} must fit into {bits} bits, got {number}")
    return number


def real(value: Any, name: str) -> float:
    """A float or what stands for one. Raises TypeError."""
    try:
        return float(value + 0.0)
    except TypeError:
        raise TypeError(f"{name} must be a number, got {value!r}") from None


def reduction(name: str) -> int:
    """The engine's number of one of `OPS`. Raises ValueError."""
    try:
        return OPS[name]
    except (KeyError, TypeError):  # also of what can't be a key
        raise ValueError(f"no such reduction: {name!r}; use one of {', '.join(OPS)}") from None


def refuse(factor: Any = 1.0, **others: Any) -> None:
    """Says which of the numbers that the engine did not take is none. Only then, so that a small call pays nothing."""
    real(factor, "factor")
    for name, value in others.items():
        whole(value, name, bits=32)


def needed(value: Any | None, name: str, collective: str) -> Any:
    """What the root of a collective must give. Raises ValueError."""
    if value is None:
        raise ValueError(f"the root of a {collective} must give `{name}`")
    return value


def matched(larger: Buffer, other: Buffer, count: int, name: str) -> None:
    """Raises TypeError for two dtypes, ValueError unless the larger buffer, called `name`, has `count` elements."""
    if larger.dtype != other.dtype:
        raise TypeError(f"input and output must have the same dtype, not {larger.dtype_name} and {other.dtype_name}")
    if larger.count != count:
        raise ValueError(f"{name} must hold {count} elements, not {larger.count}")


def blocks(buffer: Buffer, counts: Sequence[int] | None, size: int, name: str) -> list[tuple[int, int]]:
    """Address and elements of every rank's block, equal ones without `counts`. Raises TypeError, ValueError."""
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
