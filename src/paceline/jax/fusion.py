"""Combines many small tensors in few all-reduces: they are packed into a buffer in the arena, and taken out again."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from paceline.group.buffers import AnyArray

if TYPE_CHECKING:
    from paceline.jax.memory import Memory

    Pair = tuple[Memory, Memory]
    """A tensor's source and target."""


class Buckets:
    """Forms buffers of at most `most` bytes; a larger tensor goes by itself.

    The memory of the buffers grows to what the largest has needed.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer: AnyArray = np.empty(0, np.uint8)

    def filled(self, sources: Sequence[Memory], targets: Sequence[Memory]) -> Iterator[tuple[int, int, int, int]]:
        """Give what the caller is to reduce, one buffer after the other: where it is, where the outcome belongs, which
        may be the same address, the number of elements, and their dtype.

        Targets hold the outcome once the next buffer is asked for. All ranks get buffers of the same sizes in the same
        order.
        """
        for bucket in self._buckets(list(zip(sources, targets, strict=True))):
            count, dtype = sum(source.count for source, _ in bucket), bucket[0][0].dtype
            if len(bucket) == 1:
                source, target = bucket[0]
                yield source.address, target.address, count, dtype
                continue
            start = self._room(sum(source.bytes for source, _ in bucket))
            at = start
            for source, _ in bucket:
                ctypes.memmove(at, source.address, source.bytes)
                at += source.bytes
            yield start, start, count, dtype
            at = start
            for _, target in bucket:
                ctypes.memmove(target.address, at, target.bytes)
                at += target.bytes

    def _buckets(self, tensors: Sequence[Pair]) -> Sequence[Sequence[Pair]]:
        if len(tensors) == 1:
            return [tensors]
        done: list[list[Pair]] = []
        filling: dict[int, list[Pair]] = {}
        room: dict[int, int] = {}
        for tensor in tensors:
            source, _ = tensor
            if room.get(source.dtype, -1) < source.bytes:
                filling[source.dtype] = []
                done.append(filling[source.dtype])
                room[source.dtype] = self._most
            filling[source.dtype].append(tensor)
            room[source.dtype] -= source.bytes
        return done

    def _room(self, size: int) -> int:
        if self._buffer.size < size:
            from paceline.process.arena import empty  # which takes a while to import

            self._buffer = empty(size, np.uint8)
        return self._buffer.ctypes.data
