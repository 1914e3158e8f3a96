"""The part of the module `paceline._engine` that the runtime needs; a test can give it something else."""

from __future__ import annotations

from typing import Protocol

from paceline import _engine
from paceline.rendezvous import Native


class EngineModule(Native, Protocol):
    """The module `paceline._engine`, or what stands for it in a test."""

    def Arena(self) -> _engine.Arena:
        """Make an arena. Raises RuntimeError where the limits of this process leave no room for one."""
        ...

    def Engine(self, arena: _engine.Arena, spin_us: float, description: str, preferred_cpu: int, /) -> _engine.Engine:
        """Make the engine of this process; see `paceline._engine.Engine`."""
        ...
