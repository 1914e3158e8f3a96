"""Link two ranks: what they exchange after the handshake, and what the engine receives in the end."""

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
"""The sides of a link's memory: the rank that made it, and the rank that received it."""


class Native(Protocol):
    """The functions of `paceline._engine` that linking needs."""

    def create_link_memory(self) -> int:
        """Return the descriptor of new shared memory for a link, which the caller closes. Raises OSError."""
        ...

    def probe_address(self) -> int:
        """Return an address in this process that another process can try to read."""
        ...

    def can_read(self, pid: int, address: int, /) -> bool:
        """Return whether this process can read the `probe_address` of process `pid`."""
        ...

    def allow_reads(self) -> None:
        """Let other processes of the same user read this process's memory."""
        ...


@dataclass(slots=True)
class Link:
    """A connected, authenticated socket to `rank`, ready for the engine; with shared memory on the same machine.

    memory_fd: the descriptor of the link's memory, -1 without. side: CREATOR or RECEIVER. pid: the peer's process, 0
    where it is not known. readable: whether both processes can read each other's memory.
    """

    rank: int
    sock: socket.socket
    memory_fd: int = -1
    arena_fd: int = -1
    """The descriptor of the peer's arena, -1 without."""
    side: int = CREATOR
    pid: int = 0
    readable: bool = False

    @property
    def shared(self) -> bool:
        """True if the link has memory that both ends see."""
        return self.memory_fd >= 0

    def close(self) -> None:
        """Close the socket and all descriptors; the peer sees the connection end."""
        self.sock.close()
        for fd in (self.memory_fd, self.arena_fd):
            if fd >= 0:
                os.close(fd)
        self.memory_fd = self.arena_fd = -1


@dataclass(frozen=True, slots=True)
class Pairing:
    """The data that both conversations need.

    key: the job's secret. ticket: this rank's. ranks: the rank of every ticket. arena: the descriptor of this process's
    arena, which its owner closes.
    """

    key: bytes
    ticket: bytes
    ranks: dict[bytes, int]
    native: Native
    arena: int


def call_rank(sock: socket.socket, pairing: Pairing, wanted: bytes) -> Conversation[Link]:
    """Return the conversation of the side that connects to the rank with the ticket `wanted`; its result is the link.

    On a Unix socket this side makes the link's memory, and both sides pass their arenas. The conversation raises
    Refused, Stranger, or OSError.
    """
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
    """Return the conversation of the side that listens; its result is the link.

    Raises Stranger for a process of another user; so does the conversation for a caller that fails.
    """
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
    return pid > 0 and native.can_read(pid, address)  # pid 0: a process in a PID namespace that this one cannot see
