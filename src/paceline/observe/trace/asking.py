"""Asks several ranks one question from a single thread, because a process that is ending cannot start another."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from paceline.observe.trace.listener import LENGTH, TAKE, Name, user_of

_FULL = 0.01
"""Seconds until a connection to a rank whose queue of them is full is tried again."""

T = TypeVar("T")


@dataclass(frozen=True)
class Silence:
    """A rank that gave no valid answer, and the reason."""

    name: Name
    reason: str

    def __str__(self) -> str:
        return f"rank {self.name.rank} (pid {self.name.pid}) {self.reason}"


_Answer: TypeAlias = "bytes | Silence | None"
"""None means that the rank has ended meanwhile."""


def questions(
    names: Sequence[Name], words: str, decode: Callable[[bytes], T], seconds: float, max_bytes: int
) -> list[T | Silence | None]:
    """Ask all these ranks at once and return their answers in the same order; None for a rank that has ended meanwhile.

    words: the question. decode: converts an answer; it raises ValueError, "not a …", for an invalid one. seconds: the
    time that all ranks together have. max_bytes: the size of the longest valid answer.
    """

    def decoded(name: Name, answer: _Answer) -> T | Silence | None:
        try:
            return decode(answer) if isinstance(answer, bytes) else answer
        except ValueError as error:
            return Silence(name, f"sent something that is {error}")

    answers = _answers(names, f"{words}\n".encode("ascii"), seconds, max_bytes)
    return [decoded(name, answer) for name, answer in zip(names, answers, strict=True)]


def question(
    name: Name, words: str, decode: Callable[[bytes], T], seconds: float, max_bytes: int
) -> T | Silence | None:
    """Ask one rank; see `questions`."""
    return questions([name], words, decode, seconds, max_bytes)[0]


def hand_over(name: Name, rank: int, content: bytes, seconds: float) -> str:
    """Give the rank that makes the report what it holds of this one. Returns "" once it has it, else why it has not."""
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(seconds)
        try:
            while (error := sock.connect_ex(name.address)) == errno.EAGAIN and time.monotonic() < deadline:
                time.sleep(_FULL)  # the rank's queue of connections is full
            if error:
                raise OSError(error, os.strerror(error))
            if user_of(sock) not in (name.uid, 0):
                return str(Silence(name, "is a process of another user that took its name"))
            sock.sendall(f"{TAKE} {rank} {len(content)}\n".encode("ascii") + content)
            received = sock.recv(LENGTH.size)
        except OSError as error:  # TimeoutError has no words of the system
            return str(Silence(name, f"did not take it: {error.strerror or 'it does not answer'}"))
    return "" if len(received) == LENGTH.size else str(Silence(name, "did not take it"))


def _answers(names: Sequence[Name], question: bytes, seconds: float, max_bytes: int) -> list[_Answer]:
    deadline = time.monotonic() + seconds
    with ExitStack() as sockets, selectors.DefaultSelector() as selector:
        conversations = [
            _Conversation(
                name, sockets.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)), seconds, max_bytes
            )
            for name in names
        ]
        for one in conversations:
            if one.ask(question):
                selector.register(one.socket, selectors.EVENT_READ, one)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.data.receive():
                    selector.unregister(key.fileobj)
        return [one.answer for one in conversations]


class _Conversation:
    """The exchange with one rank: `ask` once, then `receive` whenever its socket is readable."""

    def __init__(self, name: Name, sock: socket.socket, seconds: float, max_bytes: int) -> None:
        self.socket = sock
        self.answer: _Answer = Silence(
            name, f"did not answer within {seconds:g} s: it is stopped, or in code that lets no other thread run"
        )
        self._name, self._max_bytes = name, max_bytes
        self._received = bytearray()
        self._wanted = LENGTH.size
        self._in_length = True

    def ask(self, question: bytes) -> bool:
        """Send the question, and return whether an answer can be expected."""
        self.socket.setblocking(False)
        try:
            self.socket.connect(self._name.address)
            if user_of(self.socket) not in (self._name.uid, 0):
                self.answer = Silence(self._name, "is a process of another user that took its name")
                return False
            self.socket.sendall(question)
        except BlockingIOError:  # the rank's queue of connections is full
            return False
        except ConnectionError:
            self.answer = None
            return False
        return True

    def receive(self) -> bool:
        """Receive a part of the answer, and return whether the exchange is over."""
        try:
            part = self.socket.recv(min(self._wanted - len(self._received), 2**20))
        except BlockingIOError:
            return False
        except ConnectionError:
            part = b""
        if not part:
            self.answer = None
            return True
        self._received += part
        if len(self._received) < self._wanted:
            return False
        received = bytes(self._received)
        if not self._in_length:
            self.answer = received
            return True
        self._in_length = False
        self._received.clear()
        (self._wanted,) = LENGTH.unpack(received)
        if self._wanted > self._max_bytes:
            self.answer = Silence(self._name, f"offers {self._wanted} bytes, more than the answer can have")
            return True
        if self._wanted == 0:
            self.answer = b""
        return self._wanted == 0
