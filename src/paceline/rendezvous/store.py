"""A small key-value store, through which ranks meet where there is no torch.

Rank 0 serves it from a thread (`store_server`), and the others are its clients. The `Store` protocol is what the
rendezvous needs of a store; every torch.distributed store fits it too.
"""

from __future__ import annotations

import hashlib
import logging
import struct
import threading
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from paceline.errors import RendezvousError
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import Endpoint, TcpAddress, UnixName
from paceline.rendezvous.handshake import TICKET_BYTES
from paceline.rendezvous.machine import launcher_identity
from paceline.settings.settings import Settings

log = logging.getLogger("paceline.rendezvous")

LONGEST_KEY = 256
"""Bytes that a key can have."""
LONGEST_VALUE = 8 << 20
"""Bytes that a value can have."""
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


@runtime_checkable
class TimedStore(Store, Protocol):
    """A store whose requests can have a deadline."""

    def within(self, deadline: Deadline) -> Store:
        """Return the same store with requests that raise RendezvousError if they are not answered until `deadline`."""
        ...


@runtime_checkable
class LastingStore(Protocol):
    """A store that lasts longer than what was written to meet, which should not stay in it."""

    def forget(self, keys: Sequence[str], count: str, ranks: int, shared: Sequence[str]) -> None:
        """Delete these keys. The last of so many ranks that does so deletes the shared ones, too.

        count: a key of their own, under which they are counted.
        """
        ...


class OwnStore(TimedStore, Protocol):
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

    def within(self, deadline: Deadline) -> Store:
        """Return this store, which answers at once."""
        return self

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
