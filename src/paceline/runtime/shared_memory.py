"""The memory of this process that its peers on this machine see."""

from __future__ import annotations

from paceline._engine import Arena, ArenaBuffer
from paceline.errors import refusal
from paceline.runtime.native import EngineModule


class SharedMemory:
    """Owns this process's arena until `release`. Buffers that were allocated in it outlive it.

    Raises CommunicationError where the limits of this process leave no room for an arena.
    """

    def __init__(self, native: EngineModule) -> None:
        try:
            self._arena: Arena | None = native.Arena()
        except RuntimeError as error:
            raise refusal(
                f"this process gets no shared memory ({error}): the limits on files and addresses, "
                "ulimit -f and ulimit -v, hold for it too"
            ) from None

    @property
    def arena(self) -> Arena:
        """The arena itself, for the engine and for peers that map it."""
        assert self._arena is not None, "nothing uses the arena once the runtime is closed"
        return self._arena

    def allocate(self, size: int) -> ArenaBuffer:
        """Return `size` bytes, uninitialised, as a buffer. Raises MemoryError if the arena has no room for them."""
        try:
            return self.arena.allocate(size)
        except MemoryError:
            raise MemoryError(
                f"no room for {size} bytes in this process's arena, which is as large as memory"
            ) from None

    def release(self) -> None:
        """Drop the arena; the memory goes once the last buffer in it does."""
        self._arena = None
