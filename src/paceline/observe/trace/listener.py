"""The socket where a running rank answers questions: an abstract Unix socket, which ends with the process."""

from __future__ import annotations

import logging
import math
import os
import re
import select
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

LENGTH = struct.Struct("!Q")
"""The encoding of an answer's length in bytes, which precedes the answer."""
MAX_QUESTION = 100
"""The most bytes of a question, which is a line of ASCII such as "trace"."""
TAKE = "take"
"""The first word of a line that is no question: `take RANK BYTES`, and so many bytes of that rank's report follow."""
MAX_TAKEN = 4 * 2**20
"""The most bytes of them."""

_CLIENT_SECONDS = 5.0
"""Seconds that a client has to ask and to receive the answer."""
_NAME = re.compile(r"paceline-trace-(\d+)-([0-9a-f]+)-(\d+)-(\d+)")
_PEER = struct.Struct("iII")  # struct ucred
_open: set[Listener] = set()

log = logging.getLogger("paceline")


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a rank's socket: the user, the job (the channel of its first group), the rank and the process."""

    uid: int
    job: int
    rank: int
    pid: int

    def __str__(self) -> str:
        return f"paceline-trace-{self.uid}-{self.job:x}-{self.rank}-{self.pid}"

    @property
    def address(self) -> str:
        """The address of the abstract socket."""
        return f"\0{self}"

    @classmethod
    def parse(cls, text: str) -> Name | None:
        """Return the name that `str` wrote, None for the name of any other socket."""
        match = _NAME.fullmatch(text)
        return cls(int(match[1]), int(match[2], 16), int(match[3]), int(match[4])) if match else None


class Listener:
    """Answers processes of this user and of root. One thread serves; any thread may stop it.

    If the socket cannot be made, that is logged and no question arrives.
    """

    def __init__(self, name: Name) -> None:
        self._stop = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._stopped = False
        self._socket = _listen(name)
        _open.add(self)

    def serve(
        self,
        answer: Callable[[str], bytes],
        seconds: float | None,
        other: int = -1,
        take: Callable[[int, bytes], None] | None = None,
    ) -> bool:
        """Wait for one client and answer its question. Returns False once `stop` was called, else True.

        answer: returns the answer to a question; ValueError from it closes the connection without an answer. seconds:
        the longest wait for a client; None waits without limit. other: a descriptor that ends the wait, too, once it is
        readable. take: is given a rank and what it leaves for the report; None refuses that.
        """
        if not self._wait(self._socket, select.POLLIN, seconds, other):
            return not self._stopped
        assert self._socket is not None
        try:
            client, _ = self._socket.accept()
        except OSError as error:  # perhaps there are no descriptors left; the client can ask again
            log.debug("cannot answer a question: %s", error)
            self._wait(None, 0, 1.0)
        else:
            with client:
                if user_of(client) in (os.geteuid(), 0):
                    self._converse(client, answer, take)
        return not self._stopped

    def stop(self) -> None:
        """Make every present and later call of `serve` return False."""
        self._stopped = True
        os.eventfd_write(self._stop, 1)

    def close(self) -> None:
        """Close the socket. No thread may be in `serve`; in a forked child none is."""
        _open.discard(self)
        os.close(self._stop)
        if self._socket is not None:
            self._socket.close()

    def _converse(
        self, client: socket.socket, answer: Callable[[str], bytes], take: Callable[[int, bytes], None] | None
    ) -> None:
        client.setblocking(False)
        deadline = time.monotonic() + _CLIENT_SECONDS
        question = bytearray()
        while b"\n" not in question:
            if not self._receive(client, question, MAX_QUESTION, deadline):
                return
        line, _, rest = question.partition(b"\n")
        try:
            words = line.decode("ascii").split()
            if take is not None and len(words) == 3 and words[0] == TAKE:
                rank, wanted = int(words[1]), int(words[2])
                if wanted > MAX_TAKEN:
                    raise ValueError(f"it offers {wanted} bytes, more than {MAX_TAKEN}")
                while len(rest) < wanted:
                    if not self._receive(client, rest, wanted, deadline):
                        return
                take(rank, bytes(rest))
                data = b""
            else:
                data = answer(line.decode("ascii").strip())
        except ValueError as error:
            log.debug("cannot answer %r: %s", line, error)
            return
        left = memoryview(LENGTH.pack(len(data)) + data)
        while left and self._wait(client, select.POLLOUT, deadline - time.monotonic()):
            try:
                left = left[client.send(left) :]
            except BlockingIOError:
                continue
            except OSError:  # the client closed the connection
                return

    def _receive(self, client: socket.socket, into: bytearray, most: int, deadline: float) -> bool:
        """Receive more of at most `most` bytes. Returns False if the client gives none."""
        if len(into) >= most or not self._wait(client, select.POLLIN, deadline - time.monotonic()):
            return False
        try:
            part = client.recv(min(most - len(into), 2**20))
        except BlockingIOError:
            return True
        except OSError:
            return False
        into += part
        return bool(part)

    def _wait(self, sock: socket.socket | None, event: int, seconds: float | None, other: int = -1) -> bool:
        """Return whether `sock` became ready before the time was over, and `stop` was not called."""
        poll = select.poll()
        poll.register(self._stop, select.POLLIN)
        if sock is not None:
            poll.register(sock, event)
        if other >= 0:
            poll.register(other, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if seconds is None else max(0, math.ceil(seconds * 1000)))}
        return sock is not None and sock.fileno() in ready and self._stop not in ready


def user_of(sock: socket.socket) -> int:
    """Return the id of the user at the other end of a Unix socket, as the kernel knows it."""
    _, uid, _ = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return int(uid)


def _listen(name: Name) -> socket.socket | None:
    """Return the listening socket, None if the system does not allow it."""
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        sock.bind(name.address)
        sock.listen()
        sock.setblocking(False)
    except OSError as error:
        log.debug("`paceline trace` and `top` cannot ask this process: %s", error)
        sock.close()
        return None
    return sock


def _forget() -> None:
    for listener in list(_open):
        listener.close()


# A forked child must not keep the name in use after this process has ended.
os.register_at_fork(after_in_child=_forget)
