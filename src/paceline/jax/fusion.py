"""Combines many small tensors in few all-reduces: they are packed into a buffer in the arena, and taken out again."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from paceline.group.buffers import AnyArray

if TYPE_CHECKING:
    from paceline.jax.execution import Memory


class Buckets:
    """Forms buffers of at most `most` bytes; a larger tensor goes by itself, in place.

    The memory of the buffers grows to what the largest has needed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer: AnyArray = np.empty(0, np.uint8)

    def filled(self, tensors: Sequence[Memory]) -> Iterator[tuple[int, int, int]]:
        """Give the address, elements and dtype of one buffer after the other, for the caller to reduce in place.

        Tensors hold the outcome once the next buffer is asked for. All ranks get buffers of the same sizes in the same
        order.
        """
        for bucket in self._buckets(tensors):
            count, dtype = sum(tensor.count for tensor in bucket), bucket[0].dtype
            if len(bucket) == 1:
                yield bucket[0].address, count, dtype
                continue
            start = self._room(sum(tensor.bytes for tensor in bucket))
            at = start
            for tensor in bucket:
                ctypes.memmove(at, tensor.address, tensor.bytes)
                at += tensor.bytes
            yield start, count, dtype
            at = start
            for tensor in bucket:
                ctypes.memmove(tensor.address, at, tensor.bytes)
                at += tensor.bytes

    def _buckets(self, tensors: Sequence[Memory]) -> Sequence[Sequence[Memory]]:
        if len(tensors) == 1:
            return [tensors]
        done: list[list[Memory]] = []
        filling: dict[int, list[Memory]] = {}
        room: dict[int, int] = {}
        for tensor in tensors:
            if room.get(tensor.dtype, -1) < tensor.bytes:
                filling[tensor.dtype] = []
                done.append(filling[tensor.dtype])
                room[tensor.dtype] = self._most
            filling[tensor.dtype].append(tensor)
            room[tensor.dtype] -= tensor.bytes
        return done

    def _room(self, size: int) -> int:
        if self._buffer.size < size:
            from paceline.runtime.arena import empty  # which takes a while to import

            self._buffer = empty(size, np.uint8)
        return self._buffer.ctypes.data
