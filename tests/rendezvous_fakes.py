"""An engine that only remembers, and helpers to run several ranks as threads of the test."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from paceline.cpu.budget import CpuBudget
from paceline.rendezvous import Machine, Process, new_process_name
from paceline.runtime.groups import Failing
from paceline.settings.settings import Settings

T = TypeVar("T")


class FakeNative:
    """The module functions of the engine. Reading one's own process always works here."""

    def __init__(self, readable: bool = True) -> None:
        self.readable = readable

    def create_link_memory(self) -> int:
        return os.memfd_create("link", os.MFD_CLOEXEC)

    def probe_address(self) -> int:
        return id(self)

    def can_read(self, pid: int, address: int) -> bool:
        assert pid == os.getpid()
        assert address
        return self.readable

    def allow_reads(self) -> None:
        pass


class FakeArena:
    """A shared memory that nobody allocates in; gone with its last reference."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("arena", os.MFD_CLOEXEC)

    def __del__(self) -> None:
        os.close(self.descriptor)

    def allocate(self, size: int) -> Any:
        raise AssertionError("nothing is allocated here")


@dataclass
class Peer:
    kind: str
    description: str
    fds: tuple[int, ...]
    side: int = -1
    readable: bool = False


@dataclass
class FakeEngine:
    """Owns what it is given, like the real one."""

    spin_us: float = 0.0
    preferred_cpu: int = -1
    peers: list[Peer] = field(default_factory=list)
    groups: list[tuple[Any, ...]] = field(default_factory=list)
    failed: dict[int, Failing] = field(default_factory=dict)
    finished: list[list[int]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    closed: bool = False

    def clocks(self) -> list[tuple[str, int, int]]:
        return []

    def add_tcp_peer(self, fd: int, description: str) -> int:
        self.peers.append(Peer("tcp", description, (fd,)))
        return len(self.peers) - 1

    def add_shm_peer(
        self, fd: int, memory_fd: int, arena_fd: int, side: int, pid: int, readable: bool, description: str
    ) -> int:
        assert pid == os.getpid()
        self.peers.append(Peer("shm", description, (fd, memory_fd, arena_fd), side, readable))
        return len(self.peers) - 1

    def group(
        self,
        channel: int,
        rank: int,
        peers: list[int],
        timeout: float,
        plans: Any,
        failed: Failing,
    ) -> Any:
        self.groups.append((channel, rank, peers, timeout, plans))
        self.failed[channel] = failed
        return self.groups[-1]

    def finish(self, *operations: int) -> None:
        with self.changed:
            self.finished.append(sorted(operations))
            self.changed.notify_all()

    def events(self, after: int = 0) -> list[Any]:
        return []

    def waits(self) -> list[Any]:
        return []

    def annotate(self, operation: int, words: str) -> None:
        raise AssertionError("nobody watches here")

    def tell_line(self, line: str) -> None:
        pass

    def questions(self) -> list[Any]:
        return []

    def questions_descriptor(self) -> int:
        return -1

    def serve(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.closed)

    def notifications(self) -> list[int]:
        with self.changed:
            self.changed.wait_for(lambda: self.finished or self.closed)
            return self.finished.pop(0) if self.finished else []

    def close(self) -> None:
        with self.changed:
            if not self.closed:
                for peer in self.peers:
                    for fd in peer.fds:
                        os.close(fd)
            self.closed = True
            self.changed.notify_all()


class FakeModule(FakeNative):
    """Stands for the whole `paceline._engine`."""

    def __init__(self, readable: bool = True) -> None:
        super().__init__(readable)
        self.engines: list[FakeEngine] = []

    def Arena(self) -> FakeArena:
        return FakeArena()

    def Engine(self, arena: FakeArena, spin_us: float, description: str, preferred_cpu: int) -> FakeEngine:
        self.engines.append(FakeEngine(spin_us, preferred_cpu))
        return self.engines[-1]


def process(machine: str = "here", place: str = "place", version: str = "1", host: str = "host") -> Process:
    return Process(new_process_name(), Machine(machine, place, host), CpuBudget(1.0, (0,), None, "a test"), version)


def settings(rank: int, size: int, **more: Any) -> Settings:
    return replace(Settings(), **{"rank": rank, "size": size, "local_size": None, "job": "test", **more})


def in_threads(calls: Sequence[Callable[[], T]], timeout: float = 30.0) -> list[T | BaseException]:
    """Call all at the same time; what each returned or raised."""
    results: list[Any] = [None] * len(calls)

    def run(index: int) -> None:
        try:
            results[index] = calls[index]()
        except BaseException as error:
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout)
        assert not thread.is_alive(), "a rank hangs"
    return results


def good(results: Sequence[T | BaseException]) -> list[T]:
    """The results, once it is sure that nobody raised."""
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return list(results)  # type: ignore[arg-type]
