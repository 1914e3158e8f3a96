"""How two ranks become linked: what they say after the handshake, and what the engine gets in the end."""

from __future__ import annotations

import os
import socket
import struct
from dataclasses import dataclass
from typing import Protocol

from paceline.rendezvous.acceptor import peer_credentials
from paceline.rendezvous.congestion import suit_to_way
from paceline.rendezvous.conversation import Conversation, Receive, Send, Stranger, Trust
from paceline.rendezvous.handshake import Refused, Role, answer, call
from paceline.rendezvous.user import same_user

_ADDRESS = struct.Struct("!Q")
_FLAG = struct.Struct("!?")

CREATOR, RECEIVER = 0, 1


class Native(Protocol):
    """The functions of `paceline._engine` that linking needs."""

    def create_link_memory(self) -> int: ...
    def probe_address(self) -> int: ...
    def can_read(self, pid: int, address: int, /) -> bool: ...
    def allow_reads(self) -> None: ...


@dataclass(slots=True)
class Link:
    """A connected, authenticated socket to `rank`, ready for the engine; with shared memory on the same machine."""

    rank: int
    sock: socket.socket
    memory_fd: int = -1
    arena_fd: int = -1
    """The peer's arena."""
    side: int = CREATOR
    pid: int = 0
    readable: bool = False

    @property
    def shared(self) -> bool:
        """Whether it has memory that both ends see."""
        return self.memory_fd >= 0

    def close(self) -> None:
        """Let go of everything; the peer sees it end."""
        self.sock.close()
        for fd in (self.memory_fd, self.arena_fd):
            if fd >= 0:
                os.close(fd)
        self.memory_fd = self.arena_fd = -1


@dataclass(frozen=True, slots=True)
class Pairing:
    """What both conversations need: the key, this rank's ticket, the ranks behind the other tickets.

    `arena` is the descriptor of this process's arena, which stays its owner's.
    """

    key: bytes
    ticket: bytes
    ranks: dict[bytes, int]
    native: Native
    arena: int


def call_rank(sock: socket.socket, pairing: Pairing, wanted: bytes) -> Conversation[Link]:
    """The side that connects. On a Unix socket it makes the link's memory; both pass their arenas."""
    rank = pairing.ranks[wanted]
    if sock.family != socket.AF_UNIX:
        yield from call(pairing.key, Role.LINK, pairing.ticket, wanted)
        suit_to_way(sock)
        return Link(rank, sock)
    pid, uid, _ = peer_credentials(sock)
    same_user(uid, Refused)
    yield from call(pairing.key, Role.LINK, pairing.ticket, wanted)
    yield Trust()
    memory = pairing.native.create_link_memory()
    fds = [memory]
    try:
        yield Send(_ADDRESS.pack(pairing.native.probe_address()), (memory, pairing.arena))
        reply = yield Receive(_ADDRESS.size + _FLAG.size, fds=1)
        fds += reply.fds
        if len(fds) != 2:
            raise Stranger("it passed no arena")
        (address,) = _ADDRESS.unpack_from(reply.data)
        (it_can,) = _FLAG.unpack_from(reply.data, _ADDRESS.size)
        can = _can_read(pairing.native, pid, address)
        yield Send(_FLAG.pack(can))
        return Link(rank, sock, fds[0], fds[1], CREATOR, pid, it_can and can)
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise


def answer_rank(sock: socket.socket, pairing: Pairing) -> Conversation[Link]:
    """The side that listens."""
    pid = 0
    if sock.family == socket.AF_UNIX:
        pid, uid, _ = peer_credentials(sock)
        same_user(uid, Stranger)
    return _answer_rank(sock, pairing, pid)


def _answer_rank(sock: socket.socket, pairing: Pairing, pid: int) -> Conversation[Link]:
    def known(caller: bytes, wanted: bytes) -> bool:
        return wanted == pairing.ticket and caller in pairing.ranks

    rank = pairing.ranks[(yield from answer(pairing.key, Role.LINK, known))]
    if sock.family != socket.AF_UNIX:
        suit_to_way(sock)
        return Link(rank, sock)
    offer = yield Receive(_ADDRESS.size, fds=2)
    try:
        if len(offer.fds) != 2:
            raise Stranger("it passed no memory")
        can = _can_read(pairing.native, pid, _ADDRESS.unpack(offer.data)[0])
        yield Send(_ADDRESS.pack(pairing.native.probe_address()) + _FLAG.pack(can), (pairing.arena,))
        reply = yield Receive(_FLAG.size)
        return Link(rank, sock, offer.fds[0], offer.fds[1], RECEIVER, pid, can and _FLAG.unpack(reply.data)[0])
    except BaseException:
        for fd in offer.fds:
            os.close(fd)
        raise


def _can_read(native: Native, pid: int, address: int) -> bool:
    return pid > 0 and native.can_read(pid, address)  # pid 0: in a PID namespace that this process cannot see
