"""What a system must offer to be measured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .case import Case
from .pattern import Array

Call = Callable[[], object]


class Unsupported(Exception):
    """The system lacks this collective, dtype or op; the text says which."""


class Adapter(Protocol):
    """One system on one rank, made by ``Adapter(options, timeout)`` once the process group can form."""

    rank: int
    size: int
    about: str
    """Name and version, for the reader."""

    def memory(self, size: int) -> Array:
        """Where a case's data lie: uint8[size], aligned to 64 bytes."""

    def bind(self, case: Case, source: Array, target: Array) -> Call:
        """A function without arguments that runs the case once, blocking; raises ``Unsupported``."""

    def barrier(self) -> None:
        """Returns when every rank has entered."""

    def algorithm(self) -> str:
        """How the last call was done; "default" where the system does not say."""

    def close(self) -> None:
        """Leaves the process group."""
