"""A small key-value store, through which ranks meet where there is no torch.

Rank 0 serves it from a thread (`store_server`), and the others are its clients. The `Store` protocol is what the
rendezvous needs of a store; every torch.distributed store fits it too.
"""

from __future__ import annotations

import hashlib
import logging
import socket
import struct
import threading
from collections.abc import Sequence
from typing import Protocol

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous.acceptor import peer_credentials
from paceline.rendezvous.conversation import Conversation, HungUp, Receive, Send, Trust, converse
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import Endpoint, TcpAddress, UnixName, reach
from paceline.rendezvous.handshake import TICKET_BYTES, Refused, Role, call, new_ticket
from paceline.rendezvous.machine import launcher_identity
from paceline.rendezvous.reminder import Reminder
from paceline.rendezvous.user import same_user
from paceline.settings.settings import Settings

log = logging.getLogger("paceline.rendezvous")

LONGEST_KEY = 256
"""Bytes that a key can have."""
LONGEST_VALUE = 8 << 20
"""Bytes that a value can have."""
_ANSWER = 20.0
"""Seconds to wait for an answer. Rank 0's thread answers at once, unless its machine is badly overloaded."""
ANYBODY = bytes(TICKET_BYTES)
"""The ticket that a store's client asks for."""
LOST = "paceline/lost"
"""The key under which rank 0's store has the first rank whose connection ended before that rank was done."""

JOIN = struct.Struct("!II")
"""rank, size"""
REQUEST = struct.Struct("!BHI")
"""request (SET, GET, CHECK or DONE), bytes of the key, bytes of the value"""
REPLY = struct.Struct("!BI")
"""status (OK, MISSING, OVER or WRONG), bytes that follow"""

SET, GET, CHECK, DONE = range(1, 5)
OK, MISSING, OVER, WRONG = range(4)

_RANK_0 = Culprit(0)


class Store(Protocol):
    """The store that ranks meet through. Its methods raise an exception of their own where the store fails."""

    def set(self, key: str, value: bytes, /) -> object:
        """Store a value under a key, in place of an earlier one."""
        ...

    def get(self, key: str, /) -> bytes:
        """Return the value of a key that `check` found."""
        ...

    def check(self, keys: list[str], /) -> bool:
        """Return whether all keys are there, without waiting for them."""
        ...


class OwnStore(Store, Protocol):
    """A store that this package opened and must close.

    place: where it is, for messages; empty where there is no other process.
    """

    place: str

    def close(self, deadline: Deadline | None = None) -> None:
        """Close the store; a serving rank waits until the deadline for its clients to finish."""
        ...


class MemoryStore:
    """A bounded store in the memory of its process, which several threads can use."""

    MOST_KEYS = 1 << 16
    MOST_BYTES = 256 << 20
    """Bytes of all values together."""
    place = ""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def set(self, key: str, value: bytes) -> None:
        """Store a value under a key. Raises RendezvousError if a bound would be exceeded."""
        with self._lock:
            total = self._bytes + len(value) - len(self._values.get(key, b""))
            full = key not in self._values and len(self._values) >= self.MOST_KEYS
            if full or total > self.MOST_BYTES or len(value) > LONGEST_VALUE or len(key.encode()) > LONGEST_KEY:
                raise RendezvousError(f"the store has no room for {key[:80]!r} ({len(value)} bytes)")
            self._values[key] = value
            self._bytes = total

    def get(self, key: str) -> bytes:
        """Return the value of a key. Raises RendezvousError if there is none."""
        with self._lock:
            try:
                return self._values[key]
            except KeyError:
                raise RendezvousError(f"the store has no {key[:80]!r}") from None

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there."""
        with self._lock:
            return all(key in self._values for key in keys)

    def drop(self, prefix: str) -> None:
        """Delete the keys that begin with `prefix`."""
        with self._lock:
            for key in [key for key in self._values if key.startswith(prefix)]:
                self._bytes -= len(self._values.pop(key))

    def close(self, deadline: Deadline | None = None) -> None:
        """Do nothing; the store ends with its process."""


class StoreClient:
    """The store of another process, to which it connects on construction, with retries until the deadline."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        key: bytes,
        rank: int,
        size: int,
        deadline: Deadline,
        *,
        owner: str = "rank 0",
        culprit: Culprit = _RANK_0,
        stall: float | None = None,
    ) -> None:
        """key: the job's secret. owner, culprit: the process that serves the store, for messages and for errors.
        stall: see `Reminder`.

        Raises RendezvousError if the store cannot be reached, or refuses this rank.
        """

        def join(sock: socket.socket) -> Conversation[None]:
            return _join(sock, key, rank, size)

        self._owner, self._culprit = owner, culprit
        reminder = Reminder(stall)
        _, self._sock = reach(
            endpoints, join, deadline, who=f"the store of {owner}", culprit=culprit, reminder=reminder
        )
        is_tcp = self._sock.family != socket.AF_UNIX
        self.place = str(TcpAddress(*self._sock.getpeername()[:2]) if is_tcp else endpoints[0])
        self._lock = threading.Lock()

    def set(self, key: str, value: bytes) -> None:
        """Store a value under a key. Raises RendezvousError if it is too large, or the store is lost."""
        self._ask(SET, key, value)

    def get(self, key: str) -> bytes:
        """Return the value of a key. Raises RendezvousError if there is none, or the store is lost."""
        status, value = self._ask(GET, key)
        if status != OK:
            raise RendezvousError(f"the store has no {key!r}")
        return value

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there. Raises RendezvousError if the store is lost."""
        return all(self._ask(CHECK, key)[0] == OK for key in keys)

    def close(self, deadline: Deadline | None = None) -> None:
        """Report to the owner that this client is done, and hang up."""
        if self._sock.fileno() < 0:
            return
        try:
            self._ask(DONE, "")
        except RendezvousError as error:
            log.debug("%s", error)
        finally:
            self._sock.close()

    def _ask(self, what: int, key: str, value: bytes = b"") -> tuple[int, bytes]:
        name = key.encode()
        if len(name) > LONGEST_KEY or len(value) > LONGEST_VALUE:
            raise RendezvousError(f"{key[:80]!r} is too large for the store")
        try:
            with self._lock:
                status, answer = converse(self._sock, _request(what, name, value), Deadline(_ANSWER))
        except (OSError, HungUp) as error:
            reason = f"lost the store of {self._owner}: {error}; did {self._owner} fail?"
            raise RendezvousError(reason, self._culprit) from None
        if status == WRONG:
            raise RendezvousError(f"the store of {self._owner} refuses {key!r}: {answer.decode(errors='replace')}")
        return status, answer


def _join(sock: socket.socket, key: bytes, rank: int, size: int) -> Conversation[None]:
    if sock.family == socket.AF_UNIX:
        same_user(peer_credentials(sock)[1], Refused)
    yield from call(key, Role.STORE, new_ticket(), ANYBODY)
    yield Trust()
    yield Send(JOIN.pack(rank, size))
    status, text = yield from _reply()
    if status == OVER:
        raise HungUp("it still serves the ranks before: " + text.decode(errors="replace"))
    if status != OK:
        raise Refused(text.decode(errors="replace"))


def _request(what: int, key: bytes, value: bytes) -> Conversation[tuple[int, bytes]]:
    yield Send(REQUEST.pack(what, len(key), len(value)) + key + value)
    return (yield from _reply())


def _reply() -> Conversation[tuple[int, bytes]]:
    head = yield Receive(REPLY.size)
    status, size = REPLY.unpack(head.data)
    if size > LONGEST_VALUE:
        raise HungUp("it sent nonsense")
    if not size:
        return status, b""
    body = yield Receive(size)
    return status, body.data


def store_endpoints(settings: Settings) -> list[Endpoint]:
    """Return where this job's store can be: a Unix socket if all ranks are here, else ports of rank 0's host.

    Raises RendezvousError when the environment does not say where rank 0 is.
    """
    if settings.one_machine and (settings.job or settings.rank_variable):
        job = settings.job or launcher_identity(str(settings.rank_variable))
        return [UnixName("paceline-store-" + hashlib.sha256(job.encode()).hexdigest()[:32])]
    missing = [
        name
        for name, value in (("MASTER_ADDR", settings.master_address), ("MASTER_PORT", settings.store_ports))
        if not value
    ]
    if missing:
        raise RendezvousError(
            f"nothing says where rank 0 of the {settings.size} ranks is (launcher: {settings.launcher}): "
            f"set {' and '.join(missing)} on every rank to its host name or address, and a free port there"
        )
    return [TcpAddress(str(settings.master_address), port) for port in settings.store_ports]


def store_key(settings: Settings) -> bytes:
    """Return the handshake's key. Without a secret it is derived from the job's name, which separates jobs but proves
    nothing."""
    if settings.secret is not None:
        return settings.secret
    return hashlib.sha256(b"paceline job " + settings.job.encode()).digest()
