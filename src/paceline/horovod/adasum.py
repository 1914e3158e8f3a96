"""Adasum: gradients combined so that what they agree on counts once and what they disagree on adds up.

S. Maleki et al., "Scaling Distributed Training with Adaptive Summation" (2020): for two gradients
Adasum(a, b) = (1 - a·b / 2‖a‖²) a + (1 - a·b / 2‖b‖²) b, so orthogonal ones are added, equal ones averaged; for more, a
binary tree over the ranks. `adasum` does it where all gradients are; `exchange` among ranks that have one each, by the
paper's vector halving and distance doubling (its Algorithm 1).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NEGLIGIBLE = math.sqrt(sys.float_info.min)
"""A squared norm below this has too few bits to divide by; such a gradient is added as it is."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Give `data` (None: nothing) to rank `peer` (None: nobody), and get what that rank gives."""

    peer: int | None
    data: NDArray[Any] | None


@dataclass(frozen=True, slots=True)
class Total:
    """Get the sum of what the ranks of a team give; team: this rank's, of so many `teams`, None for a rank in none."""

    team: int | None
    teams: int
    numbers: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gather:
    """Get what all ranks give that still give something, one after the other."""

    data: NDArray[Any]


Step = Swap | Total | Gather
Exchange = Generator[Step, NDArray[Any], NDArray[Any]]
"""Yields what this rank does next, as all ranks do at the same time; is sent what came; returns the outcome."""


def widened(gradient: NDArray[Any]) -> NDArray[Any]:
    """In the dtype that it is combined in: float32 for float16, else its own."""
    return gradient.astype(np.float32) if gradient.itemsize < 4 else gradient


def adasum(gradients: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Combine at least one gradient, all of one shape and floating dtype, into one of the same.

    Dot products and norms are computed in float64, the combination in float32 for float16, else in the dtype itself.
    The same gradients in the same order give the same bits everywhere.
    """
    wide = [widened(gradient) for gradient in gradients]
    power = _power(len(wide))
    while len(wide) > power:  # the last ones join the first ones, then there is a tree of neighbours
        extra = wide.pop()
        wide[len(wide) - power] = _pair(wide[len(wide) - power], extra)
    while len(wide) > 1:
        wide = [_pair(*wide[first : first + 2]) for first in range(0, len(wide), 2)]
    return wide[0].astype(gradients[0].dtype)


def exchange(rank: int, size: int, gradient: NDArray[Any]) -> Exchange:
    """The same among `size` ranks, of which each has one flat gradient of equal count, in float32 or float64.

    A rank sends and receives about twice the gradient, however many there are; all get the same bits.
    """
    power = _power(size)
    extra = rank + power if rank + power < size else rank - power if rank >= power else None
    mine = gradient
    if power < size:
        theirs = yield Swap(extra, mine if rank >= power else None)
        if rank < power and extra is not None:
            mine = _pair(mine, theirs)
    levels = [1 << level for level in range(power.bit_length() - 1)]
    for level in levels:
        if rank >= power:
            yield Swap(None, None)
            yield Total(None, power // (2 * level), np.zeros(3))
            continue
        middle = len(mine) // 2
        low, high = mine[:middle], mine[middle:]
        kept, given = (high, low) if rank & level else (low, high)
        theirs = yield Swap(rank ^ level, given)
        a, b = (theirs, kept) if rank & level else (kept, theirs)
        dots = yield Total(rank // (2 * level), power // (2 * level), np.array([_dot(a, b), _dot(a, a), _dot(b, b)]))
        mine = _combined(a, b, *dots.tolist())
    for level in reversed(levels):
        theirs = yield Swap(None if rank >= power else rank ^ level, None if rank >= power else mine)
        if rank < power:
            mine = np.concatenate([theirs, mine] if rank & level else [mine, theirs])
    if power < size:
        theirs = yield Swap(extra, mine if rank < power and extra is not None else None)
        mine = theirs if rank >= power else mine
    return mine


def gather(gradient: NDArray[Any]) -> Exchange:
    """The same, where some ranks may give nothing any more: everybody gets all gradients."""
    rows = yield Gather(gradient)
    return adasum(list(rows.reshape(-1, gradient.size)))


def _power(size: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << (size.bit_length() - 1)


def _pair(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return _combined(a, b, _dot(a, b), _dot(a, a), _dot(b, b))


def _combined(a: NDArray[Any], b: NDArray[Any], dot: float, norm_a: float, norm_b: float) -> NDArray[Any]:
    pair: NDArray[Any] = _share(dot, norm_a, a.dtype) * a + _share(dot, norm_b, b.dtype) * b
    return pair


def _share(dot: float, squared_norm: float, dtype: Any) -> Any:
    return dtype.type(1.0 - dot / (2.0 * squared_norm) if squared_norm >= _NEGLIGIBLE else 1.0)


def _dot(a: NDArray[Any], b: NDArray[Any]) -> float:
    return float(np.dot(a.ravel().astype(np.float64), b.ravel().astype(np.float64)))
