"""The interface that a system must have to be measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .case import Case
from .pattern import Array

Call = Callable[[], object]


class Unsupported(Exception):
    """The system lacks this collective, dtype or op; the text says which."""


class Adapter(Protocol):
    """One system on one rank, made by `Adapter(options, timeout)` once the process group can form. timeout: seconds."""

    rank: int
    size: int
    about: str
    """Name and version of the system, for people."""

    def memory(self, size: int) -> Array:
        """Return memory for a case's data: uint8[size], aligned to 64 bytes."""

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """Return a function without arguments that runs the case once and blocks. Raises Unsupported.

        JAX's arrays have memory of their own, so that there the function takes what is in `source` now, and returns
        the result. Others return None.
        """

    def barrier(self) -> None:
        """Wait until every rank has entered."""

    def algorithm(self) -> str:
        """Return how the last call was carried out, "default" if the system does not report it."""

    def close(self) -> None:
        """Leave the process group."""
