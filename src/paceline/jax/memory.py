"""The memory that XLA hands to the handler."""

from __future__ import annotations

from typing import NamedTuple

from paceline import _engine


class Memory(NamedTuple):
    """Contiguous memory of XLA's. dtype: the engine's number of it."""

    address: int
    count: int  # type: ignore[assignment]  # nobody calls the `count` that a tuple has
    dtype: int

    @property
    def bytes(self) -> int:
        """Its size."""
        return self.count * _engine.SIZES[self.dtype]
