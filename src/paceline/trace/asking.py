"""One question to several listening ranks, asked by one thread: a process that ends can start no other."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from paceline.trace.listener import LENGTH, Name, user_of

T = TypeVar("T")


@dataclass(frozen=True)
class Silence:
    """A rank that gave no answer, and why."""

    name: Name
    reason: str

    def __str__(self) -> str:
        return f"rank {self.name.rank} (pid {self.name.pid}) {self.reason}"


_Answer: TypeAlias = "bytes | Silence | None"
"""None: the rank has ended meanwhile."""


def questions(
    names: Sequence[Name], words: str, decode: Callable[[bytes], T], seconds: float, most: int
) -> list[T | Silence | None]:
    """What each of these ranks answers within `seconds`, in `most` bytes; None of one that has ended meanwhile.

    All are asked at once. decode: raises ValueError, "not a …", for what can't be an answer.
    """

    def decoded(name: Name, answer: _Answer) -> T | Silence | None:
        try:
            return decode(answer) if isinstance(answer, bytes) else answer
        except ValueError as error:
            return Silence(name, f"sent something that is {error}")

    answers = _answers(names, f"{words}\n".encode("ascii"), seconds, most)
    return [decoded(name, answer) for name, answer in zip(names, answers, strict=True)]


def question(name: Name, words: str, decode: Callable[[bytes], T], seconds: float, most: int) -> T | Silence | None:
    """`questions` to one rank."""
    return questions([name], words, decode, seconds, most)[0]


def _answers(names: Sequence[Name], question: bytes, seconds: float, most: int) -> list[_Answer]:
    deadline = time.monotonic() + seconds
    with ExitStack() as sockets, selectors.DefaultSelector() as selector:
        conversations = [
            _Conversation(name, sockets.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)), seconds, most)
            for name in names
        ]
        for one in conversations:
            if one.ask(question):
                selector.register(one.socket, selectors.EVENT_READ, one)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                if key.data.hear():
                    selector.unregister(key.fileobj)
        return [one.answer for one in conversations]


class _Conversation:
    """With one rank. `ask`, then `hear` whenever it has said something."""

    def __init__(self, name: Name, sock: socket.socket, seconds: float, most: int) -> None:
        self.socket = sock
        self.answer: _Answer = Silence(
            name, f"did not answer within {seconds:g} s: it is stopped, or in code that lets no other thread run"
        )
        self._name, self._most = name, most
        self._said = bytearray()
        self._wanted = LENGTH.size
        self._in_length = True

    def ask(self, question: bytes) -> bool:
        """Whether there will be something to hear."""
        self.socket.setblocking(False)
        try:
            self.socket.connect(self._name.address)
            if user_of(self.socket) not in (self._name.uid, 0):
                self.answer = Silence(self._name, "is a process of another user that took its name")
                return False
            self.socket.sendall(question)
        except BlockingIOError:  # too many wait for it already
            return False
        except ConnectionError:
            self.answer = None
            return False
        return True

    def hear(self) -> bool:
        """Take in what has come; whether that is all."""
        try:
            part = self.socket.recv(min(self._wanted - len(self._said), 2**20))
        except BlockingIOError:
            return False
        except ConnectionError:
            part = b""
        if not part:
            self.answer = None
            return True
        self._said += part
        if len(self._said) < self._wanted:
            return False
        said = bytes(self._said)
        if not self._in_length:
            self.answer = said
            return True
        self._in_length = False
        self._said.clear()
        (self._wanted,) = LENGTH.unpack(said)
        if self._wanted > self._most:
            self.answer = Silence(self._name, f"offers {self._wanted} bytes, more than the answer can have")
            return True
        if self._wanted == 0:
            self.answer = b""
        return self._wanted == 0
