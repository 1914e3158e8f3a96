"""Serve all callers while ranks meet, in one thread with one selector loop that no caller can hold up.

A caller has a few seconds to authenticate, and only a bounded number of callers can be in the middle of that: the
oldest makes way for a new one. A stranger is refused, counted and logged, and the job goes on.
"""

from __future__ import annotations

import errno
import logging
import resource
import select
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous.conversation import PATIENCE, Conversation, Exchange, HungUp, Stranger
from paceline.rendezvous.descriptors import explain
from paceline.rendezvous.dial import TcpAddress
from paceline.rendezvous.keepalive import keep_alive

log = logging.getLogger("paceline.rendezvous")

T = TypeVar("T")

_STRANGERS = 256
"""Callers that can be in the middle of authenticating."""
_SHARE = 8
"""A divisor: strangers get at most this part of the process's descriptors, since the links need the others."""
_LOGGED = 10
"""Refusals that are logged one by one."""
_REASONS = 16
"""Reasons that are counted apart. Callers influence the texts, such as by the number of their protocol."""
STUCK = 6.0
"""Seconds without a free descriptor, after which a meeting fails. A stranger cannot hold one for as long."""
_OWN_ERROR = "an error on this side"


class Acceptor(Generic[T]):
    """Accepts on `doors` and holds a conversation with each caller until `close()`.

    doors: listening sockets, which the acceptor owns. greet: makes the conversation for a socket. finished: takes its
    result and the socket; both are called in the acceptor's thread. patience: seconds that a caller has to
    authenticate. strangers: the most callers in the middle of that; None: 256, or fewer where descriptors are scarce.
    """

    def __init__(
        self,
        doors: Iterable[socket.socket],
        greet: Callable[[socket.socket], Conversation[T]],
        finished: Callable[[T, socket.socket], None],
        *,
        patience: float = PATIENCE,
        strangers: int | None = None,
    ) -> None:
        self.refused: Counter[str] = Counter()
        """The number of refused callers by reason; beyond the first few reasons, all are counted together."""
        self.stuck: tuple[float, OSError] | None = None
        """Since when (`time.monotonic()`) no caller got through for want of descriptors, and the error; else None."""
        self._doors = list(doors)
        self._greet, self._finished = greet, finished
        self._patience = patience
        self._strangers = room_for_strangers() if strangers is None else strangers
        self._open: dict[Exchange[T], tuple[float, str]] = {}  # in the order of arrival: until when, and the caller
        self._trusted: set[Exchange[T]] = set()
        self._selector = selectors.DefaultSelector()
        self._wake_reader, self._wake_writer = socket.socketpair()
        self._stopping = self._closed = False
        self._full = False  # the last caller was not accepted for want of descriptors
        self._thread = threading.Thread(target=self._run, name="paceline-acceptor", daemon=True)

    def start(self) -> None:
        """Begin to accept callers."""
        for door in self._doors:
            door.setblocking(False)
            self._selector.register(door, selectors.EVENT_READ)
        self._selector.register(self._wake_reader, selectors.EVENT_READ)
        self._thread.start()

    def close(self) -> None:
        """Stop accepting, hang up on callers that have not finished, and close the doors. It may be called again."""
        if self._closed:
            return
        self._stopping = self._closed = True
        if self._thread.is_alive():
            self._wake_writer.send(b"x")
            self._thread.join()
        for exchange in [*self._open, *self._trusted]:
            exchange.close()
        self._open.clear()
        self._trusted.clear()
        for sock in (*self._doors, self._wake_reader, self._wake_writer):
            sock.close()
        self._selector.close()
        unlogged = sum(self.refused.values()) - _LOGGED
        if unlogged > 0:
            log.warning("refused %d more strangers: %s", unlogged, dict(self.refused))

    def check(self, seconds: float, culprit: Culprit) -> None:
        """Raise RendezvousError, which names `culprit`, this rank, if no caller got through for so long for want of
        descriptors."""
        if self.stuck is not None and time.monotonic() - self.stuck[0] >= seconds:
            raise RendezvousError(f"cannot let the other ranks in: {explain(self.stuck[1])}", culprit)

    def _run(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(self._next_expiry()):
                if isinstance(key.data, Exchange):
                    self._advance(key.data)
                elif key.fileobj is not self._wake_reader:
                    self._accept(key.fileobj)  # type: ignore[arg-type]
            self._expire()

    def _next_expiry(self) -> float | None:
        for until, _ in self._open.values():
            return max(0.0, until - time.monotonic())
        return None

    def _accept(self, door: socket.socket) -> None:
        for _ in range(max(1, self._strangers // 4)):  # then these callers get their turn before they must make way
            try:
                sock, address = door.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # descriptors have run out: drop the oldest caller, or pause if there is none
                self._note(error)
                self._full = True
                if not self._drop_oldest("no room left"):
                    time.sleep(0.05)
                return
            if self._full:
                self._full, self.stuck = False, None
            who = describe_caller(sock, address)
            keep_alive(sock)
            try:
                exchange = Exchange(sock, self._greet(sock))
            except Stranger as reason:
                self._refuse(who, str(reason))
                sock.close()
                continue
            if len(self._open) >= self._strangers:
                self._drop_oldest("it was silent while many others came")
            self._open[exchange] = (time.monotonic() + self._patience, who)
            self._selector.register(sock, selectors.EVENT_READ, exchange)
            self._advance(exchange)

    def _advance(self, exchange: Exchange[T]) -> None:
        if exchange not in self._open and exchange not in self._trusted:
            return  # it made way earlier in this round
        try:
            wants = exchange.advance()
        except (Stranger, HungUp, OSError) as reason:
            self._note(reason)
            self._drop(exchange, str(reason))
            return
        except Exception:  # an error with one caller must not end the rendezvous of all
            if not self.refused[_OWN_ERROR]:
                log.exception("a conversation with %s failed", self._open.get(exchange, (0, "a peer"))[1])
            self._drop(exchange, _OWN_ERROR)
            return
        if not wants:
            self.stuck = None
            self._forget(exchange)
            self._finished(exchange.result, exchange.sock)
            return
        if exchange.trusted and exchange in self._open:
            del self._open[exchange]
            self._trusted.add(exchange)
        events = selectors.EVENT_READ if wants & select.POLLIN else selectors.EVENT_WRITE
        if self._selector.get_key(exchange.sock).events != events:
            self._selector.modify(exchange.sock, events, exchange)

    def _note(self, error: Exception) -> None:
        if self.stuck is None and isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            self.stuck = time.monotonic(), error

    def _expire(self) -> None:
        now = time.monotonic()
        while self._open:
            exchange, (until, _) = next(iter(self._open.items()))
            if until > now:
                return
            self._drop(exchange, f"it was silent for {self._patience:g} s")

    def _drop_oldest(self, reason: str) -> bool:
        for exchange in self._open:
            self._drop(exchange, reason)
            return True
        return False

    def _drop(self, exchange: Exchange[T], reason: str) -> None:
        entry = self._open.get(exchange)
        self._forget(exchange)
        exchange.close()
        if entry is not None:
            self._refuse(entry[1], reason)

    def _forget(self, exchange: Exchange[T]) -> None:
        self._selector.unregister(exchange.sock)
        self._open.pop(exchange, None)
        self._trusted.discard(exchange)

    def _refuse(self, who: str, reason: str) -> None:
        known = reason in self.refused or len(self.refused) < _REASONS
        self.refused[reason if known else "other reasons"] += 1
        if sum(self.refused.values()) <= _LOGGED:
            log.warning("refused a connection from %s: %s", who, reason)


def room_for_strangers() -> int:
    """Return how many callers can be in the middle of authenticating without using up the descriptors."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _STRANGERS if limit == resource.RLIM_INFINITY else max(1, min(_STRANGERS, limit // _SHARE))


def describe_caller(sock: socket.socket, address: object) -> str:
    """Return a text that names the caller: its address, or its process if it is on this machine."""
    if sock.family == socket.AF_UNIX:
        pid, uid, _ = peer_credentials(sock)
        return f"process {pid} of user {uid} on this machine"
    return str(TcpAddress(*address[:2])) if isinstance(address, tuple) else str(address)


def peer_credentials(sock: socket.socket) -> tuple[int, int, int]:
    """Return (pid, uid, gid) of the process at the other end of a Unix socket, when it connected or began to listen."""
    size = struct.calcsize("3i")
    pid, uid, gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid, gid
