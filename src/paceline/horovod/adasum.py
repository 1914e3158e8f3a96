"""Adasum combines gradients so that their common part counts once and their orthogonal parts add up.

S. Maleki et al., "Scaling Distributed Training with Adaptive Summation" (2020), defines it for two gradients as
Adasum(a, b) = (1 - a·b / 2‖a‖²) a + (1 - a·b / 2‖b‖²) b: orthogonal gradients are added and equal ones are averaged.
More gradients are combined along a binary tree over the ranks. `adasum` combines gradients that are all in this
process; `exchange` combines gradients of which each rank has one, by the paper's vector halving and distance doubling
(its Algorithm 1).
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
"""A squared norm below this has too few significant bits to divide by; such a gradient is added unscaled."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Send `data` to rank `peer` and receive what that rank sends.

    peer: the rank to exchange with; None if this rank exchanges with nobody in this step. data: a flat array; None
    sends nothing.
    """

    peer: int | None
    data: NDArray[Any] | None


@dataclass(frozen=True, slots=True)
class Total:
    """Sum the numbers of the ranks in a team.

    team: the index of this rank's team; None if this rank is in no team. teams: the number of teams. numbers: float64,
    of the same length on all ranks.
    """

    team: int | None
    teams: int
    numbers: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Gather:
    """Receive the data of all ranks that still take part, concatenated in rank order."""

    data: NDArray[Any]


Step = Swap | Total | Gather
Exchange = Generator[Step, NDArray[Any], NDArray[Any]]
"""A generator that yields this rank's next step, which all ranks take at the same time. It is sent what the step
received, and returns the combined gradient.
"""


def widened(gradient: NDArray[Any]) -> NDArray[Any]:
    """Return the gradient in the dtype in which it is combined: float32 for float16, otherwise its own."""
    return gradient.astype(np.float32) if gradient.itemsize < 4 else gradient


def adasum(gradients: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Combine one or more gradients, all of one shape and floating-point dtype, into one of that shape and dtype.

    Dot products and norms are computed in float64; float16 gradients are combined in float32, others in their own
    dtype. The same gradients in the same order give the same bits everywhere.
    """
    wide = [widened(gradient) for gradient in gradients]
    power = _power(len(wide))
    while len(wide) > power:  # fold the last gradients into the first; a power of two is left for the tree
        extra = wide.pop()
        wide[len(wide) - power] = _pair(wide[len(wide) - power], extra)
    while len(wide) > 1:
        wide = [_pair(*wide[first : first + 2]) for first in range(0, len(wide), 2)]
    return wide[0].astype(gradients[0].dtype)


def exchange(rank: int, size: int, gradient: NDArray[Any]) -> Exchange:
    """Combine the gradients of `size` ranks, each of which has one.

    gradient: flat, float32 or float64, with the same number of elements on all ranks.

    Each rank sends and receives about twice the gradient's bytes, however many ranks there are. All ranks get the same
    bits.
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
    """Combine the gradients where some ranks no longer take part: every rank receives and combines all gradients."""
    rows = yield Gather(gradient)
    return adasum(list(rows.reshape(-1, gradient.size)))


def _power(size: int) -> int:
    """Return the largest power of two that is at most `size`."""
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
