"""The socket of a rank: it answers its own user, ends when told, and is gone when its process is."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest
from event_rows import row

from paceline.observe.trace import listener as module
from paceline.observe.trace import live
from paceline.observe.trace.dump import Dump, encode
from paceline.observe.trace.listener import LENGTH, MAX_QUESTION, Listener, Name

DEADLINE = 20.0
NAME = Name(os.geteuid(), 2**62 + 7, 3, os.getpid())


def content(size: int = 1) -> bytes:
    return encode(3, "host", 42, [row(number, 5, number) for number in range(size)], size=4).encode()


def answer(question: str) -> bytes:
    """Like a rank's: it knows one word."""
    if question != "trace":
        raise ValueError("not a word")
    return content()


class Served:
    """A listener with a thread that serves it."""

    def __init__(self, data: bytes, name: Name = NAME) -> None:
        self.listener = Listener(name)
        self.thread = threading.Thread(target=self._run, args=(data,))
        self.thread.start()

    def _run(self, data: bytes) -> None:
        while self.listener.serve(lambda _: data, None):
            pass

    def close(self) -> None:
        self.listener.stop()
        self.thread.join(DEADLINE)
        assert not self.thread.is_alive()
        self.listener.close()


@pytest.fixture
def served() -> Iterator[Served]:
    one = Served(content(5000))  # more than a socket's buffer
    yield one
    one.close()


def test_it_answers(served: Served) -> None:
    assert NAME in live.listening()
    for _ in range(3):
        answer = live.ask(NAME, DEADLINE)
        assert isinstance(answer, Dump)
        assert (answer.rank, answer.pid, len(answer.events)) == (3, 42, 5000)


def test_a_name_that_is_taken_is_left_to_its_owner(served: Served) -> None:
    second = Served(b"", NAME)
    assert live.listening().count(NAME) == 1
    second.close()
    assert isinstance(live.ask(NAME, DEADLINE), Dump)


def test_close_gives_the_name_back() -> None:
    for _ in range(2):
        one = Served(content())
        assert NAME in live.listening()
        one.close()
        assert NAME not in live.listening()


@pytest.mark.parametrize("text", ["", "paceline-trace-0-1-2", "paceline-launch-0-1-2-3", "x-paceline-trace-0-1-2-3"])
def test_other_names(text: str) -> None:
    assert Name.parse(text) is None
    assert Name.parse(str(NAME)) == NAME


def test_a_client_that_does_not_read_delays_nobody_who_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLIENT_SECONDS", 10 * DEADLINE)
    one = Served(content(20_000))
    with socket.socket(socket.AF_UNIX) as lazy:
        lazy.connect(NAME.address)
        lazy.sendall(b"trace\n")
        lazy.recv(1)  # the answer is under way, and does not fit
        one.close()


def test_it_returns_when_time_is_up_and_when_stopped() -> None:
    listener = Listener(NAME)
    assert listener.serve(answer, 0.01)
    listener.stop()
    assert not listener.serve(answer, None)
    assert not listener.serve(answer, None)
    listener.close()


FORKING = """
import os, time
from paceline.observe.trace.listener import Listener, Name
one = Listener(Name(os.geteuid(), 5, 0, os.getpid()))
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(600)
"""


def test_a_forked_child_does_not_keep_the_name() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKING], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        name = Name(os.geteuid(), 5, 0, parent.pid)
        try:
            assert name in live.listening()
            parent.kill()
            parent.wait(DEADLINE)
            assert name not in live.listening()
            assert live.ask(name, DEADLINE) is None
        finally:
            parent.kill()
            os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize(
    ("said", "seconds", "why"),
    [
        (LENGTH.pack(2**40), DEADLINE, "more than the answer can have"),
        (LENGTH.pack(4) + b"nope", DEADLINE, "not a dump"),
        (LENGTH.pack(4) + b"no", 1.0, "did not answer within 1 s"),
        (b"", 1.0, "did not answer within 1 s"),
    ],
)
def test_nonsense_is_named(said: bytes, seconds: float, why: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(NAME.address)
        server.listen()
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(live.ask(NAME, seconds)))
        thread.start()
        client, _ = server.accept()
        client.sendall(said)
        thread.join(DEADLINE)
        client.close()
    (answer,) = answers
    assert isinstance(answer, live.Silence)
    assert str(answer).startswith(f"rank 3 (pid {os.getpid()}) ") and why in str(answer)


def test_one_that_hangs_up_has_ended() -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(NAME.address)
        server.listen()
        answers: list[object] = []
        thread = threading.Thread(target=lambda: answers.append(live.ask(NAME, DEADLINE)))
        thread.start()
        server.accept()[0].close()
        thread.join(DEADLINE)
    assert answers == [None]
    assert live.ask(NAME, DEADLINE) is None


@pytest.mark.parametrize("said", [b"nonsense\n", b"\xff\n", b"x" * MAX_QUESTION, b"\n", b""])
def test_a_question_that_is_none_is_hung_up_on_and_the_next_is_answered(said: bytes) -> None:
    listener = Listener(NAME)
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(NAME.address)
            client.sendall(said)
            client.shutdown(socket.SHUT_WR)
            assert listener.serve(answer, DEADLINE)
            client.settimeout(DEADLINE)
            assert client.recv(1) == b""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(NAME.address)
            client.sendall(b"trace\n")
            assert listener.serve(answer, DEADLINE)
            assert client.recv(LENGTH.size) == LENGTH.pack(len(content()))
    finally:
        listener.close()


def test_a_client_that_asks_nothing_delays_nobody_who_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLIENT_SECONDS", 10 * DEADLINE)
    one = Served(content())
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(NAME.address)
        silent.sendall(b"tra")
        one.close()
