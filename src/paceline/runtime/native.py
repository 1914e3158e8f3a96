"""What the runtime needs of the C++ module, so that a test can give it something else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from paceline.errors import CommunicationError
from paceline.observe.waits import Wait
from paceline.rendezvous import Native


class Engine(Protocol):
    """What the runtime needs of `paceline._engine.Engine`."""

    def add_tcp_peer(self, fd: int, description: str, /) -> int: ...
    def add_shm_peer(
        self, fd: int, memory_fd: int, arena_fd: int, side: int, pid: int, readable: bool, description: str, /
    ) -> int: ...
    def group(
        self,
        channel: int,
        rank: int,
        peers: list[int],
        timeout: float,
        plans: Mapping[str, Sequence[Any]],
        failed: Callable[[CommunicationError, str, bool], None],
        /,
    ) -> Any: ...
    def serve(self) -> list[int]: ...
    def close(self) -> None: ...
    def events(self, after: int = 0, /) -> list[Any]: ...
    def exposed_ns(self) -> int: ...
    def waits(self) -> Sequence[Wait]: ...
    def annotate(self, operation: int, words: str, /) -> None: ...
    def tell_line(self, line: str, /) -> None: ...


class Arena(Protocol):
    """What the runtime needs of `paceline._engine.Arena`."""

    @property
    def descriptor(self) -> int: ...
    def allocate(self, size: int, /) -> Any: ...


class EngineModule(Native, Protocol):
    """What the runtime needs of the module `paceline._engine`."""

    def Arena(self) -> Arena: ...
    def Engine(self, arena: Any, spin_us: float, description: str, home: int, /) -> Engine: ...
