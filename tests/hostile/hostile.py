"""Hostile clients: crowds that hold connections, floods, and a middlebox that records, changes and cuts what passes.

All of it is bounded in number, and stays on loopback.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle

Address = tuple[str, int]
PATIENCE = 20.0
"""Seconds that a listener has to answer a client of this file."""
PAUSE = 0.005
"""Seconds between connections once a flood has said all its words."""
CALL, ANSWER = "call", "answer"
"""The two ways that bytes go on a connection."""


@contextmanager
def crowd(address: Address, count: int, words: bytes = b"") -> Iterator[list[socket.socket]]:
    """`count` connections that stay open and say `words` byte by byte, all at the same pace; or nothing at all."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(_connected(address)) for _ in range(count)]
        over = threading.Event()

        def trickle() -> None:
            for byte in words:
                for sock in sockets:
                    with suppress(OSError):
                        sock.send(bytes([byte]), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                if over.wait(0.01):
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            yield sockets
        finally:
            over.set()
            thread.join()


def say(address: Address, words: bytes) -> bytes:
    """Connect, say these words, and hear what is answered until the other side hangs up. OSError if nobody listens."""
    with _connected(address) as sock:
        with suppress(OSError):
            sock.sendall(words)
            sock.shutdown(socket.SHUT_WR)
        heard = b""
        with suppress(ConnectionError):
            while part := sock.recv(4096):
                heard += part
        return heard


class Flood:
    """Says `words`, one after the other and then again, each on a connection of its own, until it is closed: the first
    round as quickly as it can, further ones so slowly that others have a core.

    most: connections in all.
    """

    def __init__(self, address: Address, words: Sequence[bytes], most: int = 20_000) -> None:
        self._address, self._words, self._most = address, words, most
        self._count = 0
        self._changed = threading.Condition()
        self._over = False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for(self, count: int) -> None:
        """Until so many connections were made, at least. Fails if they are not."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._count >= count or self._over, 3 * PATIENCE)
            assert self._count >= count, f"only {self._count} connections"

    def close(self) -> None:
        self._over = True
        self._thread.join()

    def _run(self) -> None:
        for words in cycle(self._words):
            if self._over or self._count >= self._most:
                break
            if self._count >= len(self._words):
                time.sleep(PAUSE)
            try:
                say(self._address, words)
            except ConnectionRefusedError:  # those that it was meant for have met
                break
            except OSError:
                continue
            with self._changed:
                self._count += 1
                self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()


@dataclass(frozen=True)
class Meddling:
    """What happens to a connection once `at` bytes went this way: it is cut, or else the next byte is changed."""

    way: str
    at: int
    cut: bool = True


@dataclass
class Passed:
    """What went each way on one connection, as it was said."""

    call: bytearray = field(default_factory=bytearray)
    answer: bytearray = field(default_factory=bytearray)


class Middlebox:
    """Passes on what is said to a listener, by a port of its own; meddles with the first connections, one for one."""

    def __init__(self, to: Address, *meddling: Meddling) -> None:
        self.passed: list[Passed] = []
        self._to, self._meddling = to, list(meddling)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._over, self._end = socket.socketpair()
        self._threads = [threading.Thread(target=self._run)]
        self._threads[0].start()

    @property
    def address(self) -> Address:
        return "127.0.0.1", int(self._door.getsockname()[1])

    def close(self) -> None:
        """Hang up on everybody."""
        self._door.shutdown(socket.SHUT_RDWR)  # ends accept
        self._end.close()
        for thread in self._threads:
            thread.join()
        self._door.close()
        self._over.close()

    def _run(self) -> None:
        while True:
            try:
                caller, _ = self._door.accept()
            except OSError:
                return
            meddling = self._meddling.pop(0) if self._meddling else None
            self.passed.append(Passed())
            thread = threading.Thread(target=self._carry, args=(caller, meddling, self.passed[-1]))
            self._threads.append(thread)
            thread.start()

    def _carry(self, caller: socket.socket, meddling: Meddling | None, passed: Passed) -> None:
        with caller, suppress(OSError), _connected(self._to) as callee:
            while True:
                ready, _, _ = select.select([caller, callee, self._over], [], [])
                if self._over in ready:
                    return
                for sock, way, other in ((caller, CALL, callee), (callee, ANSWER, caller)):
                    if sock not in ready:
                        continue
                    data = sock.recv(65536)
                    if not data:
                        return
                    so_far = getattr(passed, way)
                    place = meddling.at - len(so_far) if meddling is not None and meddling.way == way else -1
                    so_far += data
                    if meddling is not None and meddling.cut and 0 <= place <= len(data):
                        other.sendall(data[:place])
                        return
                    if meddling is not None and 0 <= place < len(data):
                        data = data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]
                    other.sendall(data)


def _connected(address: Address) -> socket.socket:
    sock = socket.create_connection(address, PATIENCE)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
