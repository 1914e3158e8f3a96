"""Conversations over a socket, written as generators that know no socket.

A conversation yields what it wants next (`Send`, `Receive`, `Trust`) and is resumed with what arrived. A blocking
caller, the acceptor's selector loop, and a test without any socket can thus all drive the same generator.
"""

from __future__ import annotations

import errno
import math
import os
import select
import socket
from array import array
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from paceline.rendezvous.deadline import Deadline

T = TypeVar("T")

PATIENCE = 5.0
"""Seconds that the other side has to authenticate, be it caller or callee."""


_SLICE = 0.5
"""Seconds of silence between two calls of `waiting`."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send `data`, with file descriptors on a Unix socket. The sender keeps its own descriptors, and closes them."""

    data: bytes
    fds: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Receive:
    """Wait for exactly `size` > 0 bytes, and accept at most `fds` descriptors that come with them."""

    size: int
    fds: int = 0


@dataclass(frozen=True, slots=True)
class Trust:
    """The other side has authenticated; from here on only the deadline limits it."""


@dataclass(frozen=True, slots=True)
class Received:
    """The input that resumes a conversation: the bytes that it asked for, and the descriptors that came with them."""

    data: bytes = b""
    fds: tuple[int, ...] = ()


Step: TypeAlias = "Send | Receive | Trust"
Conversation: TypeAlias = Generator[Step, Received, T]


class Stranger(Exception):
    """The other side broke the protocol or failed to authenticate; the text is the reason."""


class HungUp(Exception):
    """The other side closed the connection in the middle of a conversation."""


class Silent(HungUp):
    """The other side sent nothing until the deadline."""


class Exchange(Generic[T]):
    """A conversation on a socket, which advances without ever blocking. `result` exists once it is over."""

    result: T

    def __init__(self, sock: socket.socket, conversation: Conversation[T]) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.trusted = False
        self._conversation = conversation
        self._outgoing = memoryview(b"")
        self._outgoing_fds: tuple[int, ...] = ()
        self._wanted: Receive | None = None
        self._arrived = bytearray()
        self._arrived_fds: list[int] = []
        self._started = self._done = False

    def advance(self) -> int:
        """Do what is possible now, and return what to wait for: select.POLLIN, select.POLLOUT, or 0 at the end.

        Raises HungUp, Stranger, OSError, or what the conversation raises.
        """
        if not self._started:
            self._started = True
            self._resume(None)
        try:
            while not self._done:
                if self._outgoing:
                    self._send()
                else:
                    self._receive()
        except BlockingIOError:
            return select.POLLOUT if self._outgoing else select.POLLIN
        return 0

    def abandon(self) -> None:
        """Close the conversation and what it holds, but not the socket."""
        self._conversation.close()
        while self._arrived_fds:
            os.close(self._arrived_fds.pop())

    def close(self) -> None:
        """Close the conversation, what it holds, and the socket."""
        self.abandon()
        self.sock.close()

    def _resume(self, received: Received | None) -> None:
        try:
            while True:
                step = next(self._conversation) if received is None else self._conversation.send(received)
                if not isinstance(step, Trust):
                    break
                self.trusted = True
                received = Received()
        except StopIteration as stop:
            self._done, self.result = True, stop.value
            return
        if isinstance(step, Send):
            self._outgoing, self._outgoing_fds = memoryview(step.data), step.fds
        else:
            self._wanted = step

    def _send(self) -> None:
        try:
            if self._outgoing_fds:
                sent = socket.send_fds(self.sock, [self._outgoing], list(self._outgoing_fds), socket.MSG_NOSIGNAL)
                self._outgoing_fds = ()
            else:
                sent = self.sock.send(self._outgoing, socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            raise HungUp("it hung up") from None
        self._outgoing = self._outgoing[sent:]
        if not self._outgoing:
            self._resume(Received())

    def _receive(self) -> None:
        wanted = self._wanted
        assert wanted is not None
        missing = wanted.size - len(self._arrived)
        try:
            data = self._receive_fds(missing, wanted.fds) if wanted.fds else self.sock.recv(min(missing, 1 << 18))
        except ConnectionResetError:
            raise HungUp("it hung up") from None
        if not data:
            raise HungUp("it hung up")
        self._arrived += data
        if len(self._arrived) == wanted.size:
            received = Received(bytes(self._arrived), tuple(self._arrived_fds))
            self._wanted, self._arrived, self._arrived_fds = None, bytearray(), []
            self._resume(received)

    def _receive_fds(self, size: int, most: int) -> bytes:
        space = socket.CMSG_SPACE(most * array("i").itemsize)
        data, ancillary, flags, _ = self.sock.recvmsg(size, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds = array("i")
                fds.frombytes(payload[: len(payload) - len(payload) % fds.itemsize])
                self._arrived_fds += fds
        if len(self._arrived_fds) > most:
            raise Stranger("it passed too many file descriptors")
        if flags & socket.MSG_CTRUNC and len(self._arrived_fds) < most:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))  # this process has no room for the descriptors
        return data


def converse(
    sock: socket.socket,
    conversation: Conversation[T],
    deadline: Deadline,
    patience: float = math.inf,
    waiting: Callable[[], object] = lambda: None,
) -> T:
    """Hold a whole conversation on `sock` and return its result. An error closes the conversation, but not the socket.

    patience: seconds that the other side has to authenticate. waiting: is called now and then while it is silent.
    Raises HungUp, Stranger, OSError, or what the conversation raises.
    """
    exchange = Exchange(sock, conversation)
    poll = select.poll()
    proof = Deadline(min(patience, deadline.remaining()))
    try:
        while wants := exchange.advance():
            poll.register(sock, wants)
            until = deadline if exchange.trusted else proof
            while not poll.poll(min(_SLICE, until.remaining()) * 1000):
                if until.passed:
                    raise Silent("it does not answer")
                waiting()
        return exchange.result
    except BaseException:
        exchange.abandon()
        raise
