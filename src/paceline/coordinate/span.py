"""Memory as requests of a coordinator name it."""

from __future__ import annotations

from typing import NamedTuple

from paceline.group.buffers import Array, as_array, read


class Span(NamedTuple):
    """Contiguous memory: its address, elements, and the number of their type in `paceline._engine.DTYPES`."""

    address: int
    count: int  # type: ignore[assignment]  # of elements; a tuple's own count is of no use here
    dtype: int

    @classmethod
    def of(cls, value: Array) -> Span:
        """The memory of an array (buffer protocol or DLPack), which the caller keeps alive.

        Raises TypeError for another dtype than the engine's, ValueError where elements don't lie side by side.
        """
        array = as_array(value)
        if not array.flags.c_contiguous:
            raise ValueError(f"an array of shape {array.shape} is not contiguous: hand in numpy.ascontiguousarray(it)")
        seen = read(array)
        return cls(seen.address, seen.count, seen.dtype)
