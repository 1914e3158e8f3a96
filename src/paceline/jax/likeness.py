"""A check that ranks give a collective arrays of the same shapes: the engine compares only the numbers of elements.

A compiled program holds a digest of the shapes and dtypes of each of its collectives. Ranks compare it when they carry
out a collective of that digest for the first time, after the engine has compared what it knows.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.errors import Mismatch

if TYPE_CHECKING:
    from paceline.group.group import Group

_OPTION_BITS = 32


def marked(option: int, arrays: Iterable[Any]) -> int:
    """Return the option of a collective together with the digest of its arrays, in 63 bits. arrays: have a shape and a
    dtype.
    """
    text = ";".join(f"{array.dtype.name}{list(array.shape)}" for array in arrays)
    digest = int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> 1
    return option | digest << _OPTION_BITS


def option_of(number: int) -> int:
    """Return the option that `marked` was given."""
    return number & ((1 << _OPTION_BITS) - 1)


class Likeness:
    """The collectives that the ranks of `group` have compared."""

    def __init__(self, group: Group) -> None:
        self._group = group
        self._compared: set[tuple[int, int]] = set()

    def compare(self, collective: int, number: int) -> None:
        """Compare a collective with those of the other ranks, the first time. number: of `marked`. Collective.

        Raises Mismatch, on all ranks, if they differ.
        """
        if (collective, number) in self._compared or self._group.size == 1:
            return
        everyone = np.empty(self._group.size, np.int64)
        self._group.all_gather(everyone, np.array([number], np.int64))
        unlike = [rank for rank in range(self._group.size) if everyone[rank] != everyone[0]]
        if unlike:
            raise Mismatch(
                f"ranks disagree about the shapes of the arrays, or their order: those of rank {unlike[0]} are others "
                "than those of rank 0, though they have as many elements"
            )
        self._compared.add((collective, number))
