"""Strangers at the door: garbage, silence, floods, half a handshake. Who belongs there always gets in."""

from __future__ import annotations

import errno
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from paceline.rendezvous.acceptor import Acceptor
from paceline.rendezvous.conversation import Conversation, HungUp, Trust, converse
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress, UnixName, connect
from paceline.rendezvous.handshake import Refused, Role, answer, call, new_ticket
from paceline.rendezvous.listener import bind_tcp, listen_tcp, listen_unix

KEY = b"k" * 32
ME, YOU = new_ticket(), new_ticket()


class Door:
    """An acceptor for one expected caller."""

    def __init__(self, unix: bool, patience: float = 5.0, strangers: int = 256) -> None:
        self.arrived = threading.Event()
        if unix:
            self.address: TcpAddress | UnixName = UnixName(f"paceline-test-{new_ticket().hex()}")
            door = listen_unix(self.address)
        else:
            door, self.address = listen_tcp("127.0.0.1", None)
        self.acceptor = Acceptor([door], self._greet, self._finished, patience=patience, strangers=strangers)
        self.acceptor.start()

    def _greet(self, sock: socket.socket) -> Conversation[bytes]:
        return answer(KEY, Role.LINK, lambda caller, wanted: (caller, wanted) == (ME, YOU))

    def _finished(self, ticket: bytes, sock: socket.socket) -> None:
        assert ticket == ME
        sock.close()
        self.arrived.set()

    def knock(self) -> socket.socket:
        return connect(self.address, 10.0)

    def enter(self, key: bytes = KEY, seconds: float = 10.0) -> None:
        with self.knock() as sock:
            converse(sock, call(key, Role.LINK, ME, YOU), Deadline(seconds))


@pytest.fixture(params=["tcp", "unix"])
def door(request: pytest.FixtureRequest) -> Iterator[Door]:
    made = Door(request.param == "unix")
    yield made
    made.acceptor.close()


def await_hang_up(sock: socket.socket) -> None:
    sock.settimeout(20.0)
    try:
        while sock.recv(4096):
            pass
    except ConnectionResetError:
        pass


@pytest.mark.parametrize("seconds", [30 * 86400.0, 1e300, float("inf")])
def test_a_caller_may_have_more_time_than_poll_can_wait(door: Door, seconds: float) -> None:
    door.enter(seconds=seconds)
    assert door.arrived.wait(10.0)


def test_the_expected_caller_enters(door: Door) -> None:
    door.enter()
    assert door.arrived.wait(10.0)
    assert not door.acceptor.refused


def test_garbage_is_refused_counted_and_logged(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    with door.knock() as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        await_hang_up(sock)
    door.enter()
    assert door.acceptor.refused == {"it does not speak Paceline's protocol": 1}
    who = f"user {os.getuid()}" if isinstance(door.address, UnixName) else "127.0.0.1:"
    assert "refused a connection from" in caplog.text
    assert who in caplog.text


def test_a_stranger_that_tries_every_protocol_makes_no_long_line(door: Door, caplog: pytest.LogCaptureFixture) -> None:
    tried = 40
    for protocol in range(1000, 1000 + tried):
        with door.knock() as sock:
            sock.sendall(b"PACELINE" + protocol.to_bytes(2, "big") + bytes([Role.LINK, 0]) + bytes(64))
            assert sock.recv(100)
            assert sock.recv(100) == b""
    door.acceptor.close()
    assert sum(door.acceptor.refused.values()) == tried
    assert len(door.acceptor.refused) <= 20
    assert len(caplog.records) <= 12 and all(len(record.getMessage()) < 2000 for record in caplog.records)


def test_a_wrong_secret_is_refused(door: Door) -> None:
    with pytest.raises(Refused, match="secrets differ"):
        door.enter(key=b"x" * 32)
    door.enter()
    assert door.acceptor.refused == {"it does not know the job's secret": 1}


def test_a_silent_stranger_holds_nobody_up(door: Door) -> None:
    with door.knock(), door.knock() as half:
        half.sendall(b"PACELINE")
        door.enter()
        assert door.arrived.wait(10.0)


def test_a_silent_stranger_is_sent_away() -> None:
    door = Door(unix=False, patience=0.05)
    with door.knock() as sock:
        await_hang_up(sock)
    door.acceptor.close()
    assert door.acceptor.refused == {"it was silent for 0.05 s": 1}


def test_a_crowd_of_silent_strangers_makes_way() -> None:
    door = Door(unix=False, patience=60.0, strangers=4)
    crowd = [door.knock() for _ in range(40)]
    door.enter()
    assert door.arrived.wait(10.0)
    door.acceptor.close()
    for sock in crowd:
        sock.close()
    assert door.acceptor.refused["it was silent while many others came"] >= 36


def test_no_conversation_outlives_the_acceptor(door: Door) -> None:
    with door.knock() as sock:
        door.acceptor.close()
        await_hang_up(sock)
    with pytest.raises((HungUp, OSError)):
        door.enter()


def test_descriptors_that_a_stranger_passes_are_not_kept() -> None:
    door = Door(unix=True)
    with door.knock() as sock, Path(os.devnull).open() as null:
        socket.send_fds(sock, [b"PACELINE" + bytes(68)], [null.fileno()] * 8)
        await_hang_up(sock)
    door.acceptor.close()


def test_an_error_in_a_conversation_is_not_the_end(caplog: pytest.LogCaptureFixture) -> None:
    def broken(sock: socket.socket) -> Conversation[None]:
        yield Trust()
        raise ZeroDivisionError("planted")

    sock, address = listen_tcp("127.0.0.1", None)
    acceptor: Acceptor[None] = Acceptor([sock], broken, lambda _, sock: sock.close())
    acceptor.start()
    for _ in range(2):
        with connect(address, 10.0) as caller:
            await_hang_up(caller)
    acceptor.close()
    assert "planted" in caplog.text


def test_ten_thousand_random_frames(door: Door) -> None:
    generator = random.Random(4)
    valid = b"PACELINE" + bytes(2) + bytes(66)
    for _ in range(400):
        with door.knock() as sock:
            for _ in range(25):
                kept = generator.randrange(len(valid)) if generator.random() < 0.5 else 0
                try:
                    sock.send(valid[:kept] + generator.randbytes(generator.randrange(1, 200)))
                except OSError:
                    break
    door.enter()
    assert door.arrived.wait(10.0)


def test_who_cannot_be_let_in_for_want_of_descriptors_is_no_stranger(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    door = bind_tcp("127.0.0.1", 0)
    acceptor: Acceptor[None] = Acceptor([door], lambda sock: iter(()), lambda result, sock: None)  # type: ignore[arg-type, return-value]
    monkeypatch.setattr(socket.socket, "accept", refused)
    acceptor.start()
    try:
        with socket.create_connection(door.getsockname()):
            deadline = time.monotonic() + 20
            while acceptor.stuck is None:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        assert acceptor.stuck[1].errno == errno.EMFILE
        assert not acceptor.refused
    finally:
        acceptor.close()
