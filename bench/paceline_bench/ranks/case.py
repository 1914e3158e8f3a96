"""One collective at one size on one rank: its buffers, its input, and the expected result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from . import pattern
from .pattern import Array

IN_PLACE = ("all_reduce", "broadcast", "reduce")
REDUCING = ("all_reduce", "reduce_scatter", "reduce")
ALIGNMENT = 64
"""Bytes to which buffers are aligned."""


class Piece(NamedTuple):
    """A contiguous part of a buffer: part number `part` of the data of each of the `contributors`, combined."""

    contributors: list[int]
    part: int
    elements: int


@dataclass(frozen=True)
class Case:
    """A collective on `elements` elements, which is S of nccl-tests.

    S is the larger of a rank's two buffers; it is divisible by the ranks if the collective divides it. codec: encodes
    the data between machines; "" is for exact data.
    """

    collective: str
    dtype: str
    op: str
    elements: int
    root: int
    rank: int
    ranks: int
    codec: str = ""

    def source(self) -> list[Piece]:
        """Return the pieces of this rank's input."""
        block = self.elements // self.ranks
        if self.collective == "barrier":
            return []
        if self.collective == "all_gather":
            return [Piece([self.rank], 0, block)]
        if self.collective in ("reduce_scatter", "all_to_all"):
            return [Piece([self.rank], part, block) for part in range(self.ranks)]
        return [Piece([self.rank], 0, self.elements)]

    def target(self) -> list[Piece]:
        """Return the pieces of this rank's expected result; empty if the collective promises nothing here."""
        everybody, me, block = list(range(self.ranks)), self.rank, self.elements // self.ranks
        pieces = {
            "all_reduce": [Piece(everybody, 0, self.elements)],
            "reduce": [Piece(everybody, 0, self.elements)] if me == self.root else [],
            "broadcast": [Piece([self.root], 0, self.elements)],
            "all_gather": [Piece([peer], 0, block) for peer in everybody],
            "reduce_scatter": [Piece(everybody, me, block)],
            "all_to_all": [Piece([peer], me, block) for peer in everybody],
            "sendrecv": [Piece([(me - 1) % self.ranks], 0, self.elements)],
            "barrier": [],
        }
        return pieces[self.collective]

    def content(self, piece: Piece, seed: int) -> Array:
        """Return one period of the data in `piece`, in the dtype's storage."""
        op = self.op if self.collective in REDUCING else "sum"
        values = [
            pattern.contribution(rank, self.ranks, self.dtype, op, seed + 11 * piece.part)
            for rank in piece.contributors
        ]
        return pattern.encode(pattern.combine(values, op), self.dtype)


class Buffers:
    """The source and the target of a case on this rank; they are one array if the call works in place.

    Both are NumPy arrays of the dtype's storage in memory from `memory`: uint8[size], aligned to 64 bytes.
    """

    def __init__(self, case: Case, memory: Callable[[int], Array]) -> None:
        self.case = case
        self.source = _room(case.source(), case.dtype, memory)
        self.target = self.source if case.collective in IN_PLACE else _room(case.target(), case.dtype, memory)

    def load(self, seed: int) -> None:
        """Write the input, and wrong data into a separate target."""
        self.target.view(np.uint8)[:] = 0xA5
        begin = 0
        for piece in self.case.source():
            pattern.fill(self.source[begin : begin + piece.elements], self.case.content(piece, seed))
            begin += piece.elements

    def take(self, result: object) -> None:
        """Write into the target what a call has returned instead of writing it there; None if it has done so."""
        if result is not None:
            self.target[:] = np.asarray(result).reshape(-1)

    def count_wrong(self, seed: int) -> int:
        """Return the number of elements of the target that differ from the result that `load(seed)` on all ranks
        implies.
        """
        begin, wrong = 0, 0
        for piece in self.case.target():
            part = self.target[begin : begin + piece.elements]
            wrong += pattern.count_wrong(part, self.case.content(piece, seed))
            begin += piece.elements
        return wrong

    def clear(self) -> None:
        """Fill both with zeros, a fixed point of every op, so that repeated calls neither overflow nor slow down."""
        self.source[:] = 0
        self.target[:] = 0


def aligned(size: int) -> Array:
    """Return uninitialised bytes, uint8[size], aligned to `ALIGNMENT`."""
    raw = np.empty(size + ALIGNMENT, dtype=np.uint8)
    begin = -raw.ctypes.data % ALIGNMENT
    return raw[begin : begin + size]


def _room(pieces: list[Piece], dtype: str, memory: Callable[[int], Array]) -> Array:
    kind = pattern.storage(dtype)
    return memory(sum(piece.elements for piece in pieces) * kind.itemsize).view(kind)
