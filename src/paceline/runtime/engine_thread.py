"""The engine of a process, the threads that serve it and its users, and the links to other processes that it owns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from paceline._engine import Engine
from paceline.cpu import pinning
from paceline.rendezvous import Link, Member
from paceline.runtime.notifier import Notifier


class EngineThread:
    """Serves `engine` until `close`, in a thread of its own on the CPUs `cpus` (empty: those of the process)."""

    def __init__(self, engine: Engine, cpus: tuple[int, ...]) -> None:
        self.engine = engine
        self.links: dict[str, int] = {}
        """The engine's handle of the link to each process, by the process's name."""
        self._cpus = cpus
        self._notifier = Notifier(engine, cpus)
        self._thread = threading.Thread(target=self._serve, name="paceline-serve", daemon=True)
        self._thread.start()

    def adopt(self, members: Sequence[Member], links: Mapping[int, Link]) -> None:
        """Give the links to these ranks to the engine. If this raises, those that it has not taken are still open."""
        for rank, link in links.items():
            self.links[members[rank].process] = _hand_over(self.engine, link, str(members[rank]))

    def notify(self, operation: int, callback: Callable[[], None]) -> None:
        """Call `callback` once when this NOTIFY operation has finished; see `Runtime.notify`."""
        self._notifier.notify(operation, callback)

    def close(self) -> None:
        """Say goodbye to the peers, end the threads, and run the callbacks of operations that are not over.

        Raises Mismatch if the ranks of a group disagreed and no call has said so.
        """
        self.links.clear()
        try:
            self.engine.close()
        finally:
            self._thread.join()
            self._notifier.close()

    def _serve(self) -> None:
        pinning.move(self._cpus)
        self.engine.serve()


def _hand_over(engine: Engine, link: Link, description: str) -> int:
    memory_fd, arena_fd = link.memory_fd, link.arena_fd
    link.memory_fd = link.arena_fd = -1
    if memory_fd < 0:
        return engine.add_tcp_peer(link.sock.detach(), description)
    return engine.add_shm_peer(link.sock.detach(), memory_fd, arena_fd, link.side, link.pid, link.readable, description)
