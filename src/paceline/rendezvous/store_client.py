"""The store of another process, by its protocol."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Sequence

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous.acceptor import peer_credentials
from paceline.rendezvous.conversation import Conversation, HungUp, Receive, Send, Silent, Trust, converse
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import Endpoint, TcpAddress, reach
from paceline.rendezvous.handshake import Refused, Role, call, new_ticket
from paceline.rendezvous.reminder import Reminder
from paceline.rendezvous.store import (
    ANYBODY,
    CHECK,
    DONE,
    GET,
    JOIN,
    LONGEST_KEY,
    LONGEST_VALUE,
    OK,
    OVER,
    REPLY,
    REQUEST,
    SET,
    WRONG,
)
from paceline.rendezvous.user import same_user

log = logging.getLogger("paceline.rendezvous")

_ANSWER = 20.0
"""Seconds to wait for an answer outside a meeting, which has a deadline."""
_RANK_0 = Culprit(0)


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

        self._owner, self._culprit, self._stall = owner, culprit, stall
        self._lost: RendezvousError | None = None
        reminder = Reminder(stall)
        _, self._sock = reach(
            endpoints, join, deadline, who=f"the store of {owner}", culprit=culprit, reminder=reminder
        )
        is_tcp = self._sock.family != socket.AF_UNIX
        self.place = str(TcpAddress(*self._sock.getpeername()[:2]) if is_tcp else endpoints[0])
        self._lock = threading.Lock()

    def within(self, deadline: Deadline) -> StoreRequests:
        """Return the requests of this client that end at `deadline`."""
        return StoreRequests(self, deadline)

    def set(self, key: str, value: bytes) -> None:
        """Store a value under a key. Raises RendezvousError if it is too large, or the store is lost."""
        self.within(Deadline(_ANSWER)).set(key, value)

    def get(self, key: str) -> bytes:
        """Return the value of a key. Raises RendezvousError if there is none, or the store is lost."""
        return self.within(Deadline(_ANSWER)).get(key)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there. Raises RendezvousError if the store is lost."""
        return self.within(Deadline(_ANSWER)).check(keys)

    def close(self, deadline: Deadline | None = None) -> None:
        """Report to the owner that this client is done, and hang up; at the deadline without its answer."""
        if self._sock.fileno() < 0:
            return
        try:
            self.ask(DONE, "", b"", deadline or Deadline(_ANSWER))
        except RendezvousError as error:
            log.debug("%s", error)
        finally:
            self._sock.close()

    def ask(self, what: int, key: str, value: bytes, deadline: Deadline) -> tuple[int, bytes]:
        """Send a request and return the status and the body of its answer.

        Raises RendezvousError if it is refused, and at the deadline; the store is then lost for this client.
        """
        name = key.encode()
        if len(name) > LONGEST_KEY or len(value) > LONGEST_VALUE:
            raise RendezvousError(f"{key[:80]!r} is too large for the store")
        reminder = Reminder(self._stall)
        with self._lock:
            if self._lost is not None:
                raise self._lost
            try:
                request = _request(what, name, value)
                status, answer = converse(self._sock, request, deadline, waiting=lambda: reminder.check(self._silent))
            except (OSError, HungUp) as error:
                within = f" within {deadline.seconds:g} s" if isinstance(error, Silent) else ""
                reason = f"lost the store of {self._owner}: {error}{within}; did {self._owner} fail?"
                self._lost = RendezvousError(reason, self._culprit)
                self._sock.close()  # a late answer would be taken for that to another request
                raise self._lost from None
        if status == WRONG:
            raise RendezvousError(f"the store of {self._owner} refuses {key!r}: {answer.decode(errors='replace')}")
        return status, answer

    def _silent(self) -> str:
        return f"the store of {self._owner} does not answer"


class StoreRequests:
    """Requests of one client that end at one deadline."""

    def __init__(self, client: StoreClient, deadline: Deadline) -> None:
        self._client, self._deadline = client, deadline

    def set(self, key: str, value: bytes) -> None:
        """Store a value under a key. Raises RendezvousError if it is too large, or the store is lost."""
        self._client.ask(SET, key, value, self._deadline)

    def get(self, key: str) -> bytes:
        """Return the value of a key. Raises RendezvousError if there is none, or the store is lost."""
        status, value = self._client.ask(GET, key, b"", self._deadline)
        if status != OK:
            raise RendezvousError(f"the store has no {key!r}")
        return value

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all keys are there. Raises RendezvousError if the store is lost."""
        return all(self._client.ask(CHECK, key, b"", self._deadline)[0] == OK for key in keys)


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
