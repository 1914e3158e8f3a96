"""The serving side of the store, a thread of rank 0, which serves the other ranks until all of them are done."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import socket
import threading
from collections.abc import Sequence

from paceline.errors import Culprit, RendezvousError
from paceline.host_name import host_name
from paceline.rendezvous import interfaces
from paceline.rendezvous.acceptor import STUCK, Acceptor, peer_credentials
from paceline.rendezvous.conversation import Conversation, Receive, Send, Stranger, Trust
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import LOOKUP, Endpoint, TcpAddress, UnixName, resolve
from paceline.rendezvous.handshake import Role, answer
from paceline.rendezvous.listener import bind_tcp, listen_unix
from paceline.rendezvous.member import Member
from paceline.rendezvous.store import (
    ANYBODY,
    CHECK,
    DONE,
    GET,
    JOIN,
    LONGEST_KEY,
    LONGEST_VALUE,
    LOST,
    MISSING,
    OK,
    OVER,
    REPLY,
    REQUEST,
    SET,
    WRONG,
    MemoryStore,
    OwnStore,
    store_endpoints,
    store_key,
)
from paceline.rendezvous.store_client import StoreClient
from paceline.rendezvous.user import same_user
from paceline.settings.settings import Settings

log = logging.getLogger("paceline.rendezvous")

_GOODBYE = 10.0
"""Seconds that a closing store waits for its clients to finish."""
_NEWCOMERS = 2.0
"""Seconds that a closing store waits for ranks that have not come yet."""


class SharedStore(MemoryStore):
    """A store that its own process shares with clients, each of which has a number."""

    def __init__(self, doors: Sequence[socket.socket], key: bytes) -> None:
        """doors: listening sockets, which the store owns. key: the job's secret."""
        super().__init__()
        self._key = key
        self._acceptor: Acceptor[None] = Acceptor(doors, self._serve, lambda _, sock: sock.close())
        self._acceptor.start()

    def close(self, deadline: Deadline | None = None) -> None:
        """Hang up on all clients, and stop listening."""
        self._acceptor.close()

    def check_doors(self, late: bool, owner: Member) -> None:
        """Raise RendezvousError if clients wait to get in for want of descriptors, for a while unless it is `late`.

        owner: this process.
        """
        try:
            self._acceptor.check(0.0 if late else STUCK, owner.culprit)
        except RendezvousError as error:
            raise RendezvousError(f"{owner}: {error}", owner.culprit) from None

    @property
    def refused(self) -> int:
        """The number of strangers that were refused."""
        return sum(self._acceptor.refused.values())

    def admit(self, number: int, size: int) -> tuple[int, str]:
        """Return the status of a new client's admission, and a reason unless it is OK.

        number: the client's. size: the size of the job that it believes to be in.
        """
        return OK, ""

    def left(self, number: int, asked: bool, done: bool) -> None:
        """An admitted client has left: it reported that it is `done`, or its connection was lost.

        asked: whether it ever sent a request. If not, it may not know that it was admitted, and come again.
        """

    def _serve(self, sock: socket.socket) -> Conversation[None]:
        if sock.family == socket.AF_UNIX:
            same_user(peer_credentials(sock)[1], Stranger)
        return self._session()

    def _session(self) -> Conversation[None]:
        yield from answer(self._key, Role.STORE, lambda caller, wanted: wanted == ANYBODY)
        yield Trust()
        number, size = JOIN.unpack((yield Receive(JOIN.size)).data)
        status, reason = self.admit(number, size)
        yield _reply(status, reason.encode())
        if status != OK:
            return
        asked, goes_on = False, True
        try:
            while goes_on:
                goes_on = yield from self._request()
                asked = True
        finally:
            self.left(number, asked, done=not goes_on)

    def _request(self) -> Conversation[bool]:
        what, key_size, value_size = REQUEST.unpack((yield Receive(REQUEST.size)).data)
        if key_size > LONGEST_KEY or value_size > LONGEST_VALUE:
            raise Stranger("it sent a request beyond all bounds")
        name = (yield Receive(key_size)).data if key_size else b""
        value = (yield Receive(value_size)).data if value_size else b""
        key = name.decode(errors="replace")
        if what == DONE:
            yield _reply(OK)
            return False
        if what == SET:
            try:
                self.set(key, value)
                yield _reply(OK)
            except RendezvousError as error:
                yield _reply(WRONG, str(error).encode())
        elif what in (GET, CHECK):
            found = self.check([key])
            yield _reply(OK if found else MISSING, self.get(key) if found and what == GET else b"")
        else:
            yield _reply(WRONG, b"no such request")
        return True


class StoreServer(SharedStore):
    """A store that the clients of ranks 1 to size-1 share with its own process, rank 0."""

    def __init__(self, doors: Sequence[socket.socket], key: bytes, size: int, place: str = "") -> None:
        """doors: listening sockets, which the store owns. key: the job's secret. place: the address, for messages."""
        self.place = place
        self._size = size
        self._present: set[int] = set()
        self._gone: set[int] = set()
        self._changed = threading.Condition()
        super().__init__(doors, key)

    def close(self, deadline: Deadline | None = None) -> None:
        """Stop once all other ranks have reported that they are done, or hung up, or at the deadline (None: in 10 s).

        Ranks that have not come after 2 s are not waited for.
        """
        deadline = deadline or Deadline(_GOODBYE)
        with self._changed:
            self._changed.wait_for(lambda: len(self._gone) >= self._size - 1, min(_NEWCOMERS, deadline.remaining()))
            self._changed.wait_for(lambda: not self._present, deadline.remaining())
        super().close()

    def admit(self, number: int, size: int) -> tuple[int, str]:
        """Admit each of the ranks 1 to size-1 once."""
        with self._changed:
            if number in self._gone:
                return OVER, f"rank {number} was here and left"
            if size != self._size:
                return WRONG, f"rank {number} says that there are {size} ranks, rank 0 says {self._size}"
            if not 1 <= number < size:
                return WRONG, f"there is no rank {number} among the {size} clients of rank 0"
            if number in self._present:
                return WRONG, f"another process is rank {number} already"
            self._present.add(number)
            return OK, ""

    def left(self, number: int, asked: bool, done: bool) -> None:
        """Note that a client has left; one that sent a request does not come again."""
        if asked and not done and not self.check([LOST]):
            self.set(LOST, json.dumps({"rank": number}).encode())
        with self._changed:
            self._present.discard(number)
            if asked:
                self._gone.add(number)
            self._changed.notify_all()


def _reply(status: int, body: bytes = b"") -> Send:
    return Send(REPLY.pack(status, len(body)) + body)


def open_store(settings: Settings, limit: Deadline | float) -> OwnStore:
    """Return this job's store: rank 0 serves it in this process, the others connect to it within `limit`, a deadline or
    seconds.

    Raises RendezvousError if rank 0 cannot serve it, or another rank cannot reach it.
    """
    if settings.size == 1:
        return MemoryStore()
    endpoints = store_endpoints(settings)
    deadline = Deadline.of(limit)
    if settings.secret is None and not isinstance(endpoints[0], UnixName) and settings.rank == 0:
        log.warning(
            "PACELINE_SECRET is not set: any process that reaches %s can join this job. "
            "Set it to the same random text on every rank.",
            " or ".join(map(str, endpoints)),
        )
    if settings.rank == 0:
        doors, place = _open_doors(endpoints, settings, min(LOOKUP, deadline.remaining() / 4))
        return StoreServer(doors, store_key(settings), settings.size, place)
    who = (settings.rank, settings.size)
    return StoreClient(endpoints, store_key(settings), *who, deadline, stall=settings.stall_seconds)


def _open_doors(endpoints: list[Endpoint], settings: Settings, seconds: float) -> tuple[list[socket.socket], str]:
    """Listen on the first endpoint whose port is free; return the sockets and the endpoint's text.

    seconds: the time for names to resolve.
    """
    troubles: list[str] = []
    for endpoint in endpoints:
        doors: list[socket.socket] = []
        try:
            if isinstance(endpoint, UnixName):
                return [listen_unix(endpoint)], str(endpoint)
            addresses = bind_addresses(endpoint.host, settings, seconds)
            for address in addresses:
                doors.append(bind_tcp(address, endpoint.port))
            return doors, str(TcpAddress(addresses[0], endpoint.port))
        except OSError as error:
            for door in doors:
                door.close()
            troubles.append(f"{endpoint}: {error.strerror or error}")
    reason = "rank 0 cannot open the store: " + "; ".join(troubles)
    raise RendezvousError(reason, Culprit(0, host_name(), os.getpid()))


def bind_addresses(host: str, settings: Settings, seconds: float = LOOKUP) -> list[str]:
    """Return the addresses at which the other ranks look for MASTER_ADDR, the text `host`.

    The first is an address of this machine that ranks elsewhere can reach, if there are any. A loopback address follows
    where `host` resolves to one: Debian lets a machine's own name resolve to 127.0.1.1 on that machine only, so ranks
    here call there, and others do not. PACELINE_INTERFACE counts only where `host` is not an address of this machine,
    because the others call that address. seconds: the time for `host` to resolve.
    Raises RendezvousError if no address of this machine fits.
    """
    meant = resolve(host, seconds)
    loopback = [a for a in meant if ipaddress.ip_address(a).is_loopback]
    if loopback and host in (*loopback, "localhost"):
        return loopback[:1]
    candidates = interfaces.addresses()
    try:
        choice = interfaces.own(candidates, meant) or interfaces.choose(
            candidates, settings.interface, host if meant else None, not settings.one_machine
        )
    except RendezvousError:
        if settings.interface is None and loopback:
            return loopback[:1]
        raise
    interfaces.report(choice, "the store of rank 0")
    return [choice.address, *(a for a in loopback[:1] if a != choice.address)]
