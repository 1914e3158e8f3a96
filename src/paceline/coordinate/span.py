"""Memory in the form in which requests of a coordinator name it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from paceline.group.buffers import Array, as_array, read


class OnDevice(NamedTuple):
    """The place of memory on a CUDA device: the device, and the stream on which it is in use, by CUDA's numbers.

    allocate: of `all_gather` and `all_to_all`, whose output has a size that is known late: takes the number of elements
    from each rank, never 0 in all, and a stream, and returns the address of memory for them. It is called in a thread
    of the engine's, perhaps after the request has failed elsewhere; the memory is written after all that the stream has
    to do. What it raises ends all requests, on all ranks.
    """

    ordinal: int
    stream: int
    allocate: Callable[[list[int], int], int] | None = None


class Span(NamedTuple):
    """Contiguous memory: its address, the number of its elements, and their type's number in `_engine.DTYPES`."""

    address: int
    count: int  # type: ignore[assignment]  # nobody calls the `count` that a tuple has
    dtype: int

    @classmethod
    def of(cls, value: Array) -> Span:
        """The memory of an array (buffer protocol or DLPack), which the caller keeps alive.

        Raises TypeError for a dtype that the engine does not have, ValueError if the array is not contiguous.
        """
        array = as_array(value)
        if not array.flags.c_contiguous:
            raise ValueError(f"an array of shape {array.shape} is not contiguous: submit numpy.ascontiguousarray(it)")
        seen = read(array)
        return cls(seen.address, seen.count, seen.dtype)
