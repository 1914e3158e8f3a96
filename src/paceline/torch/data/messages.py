"""Messages between the process that reads a machine's batches and its ranks: small JSON objects over a Unix socket."""

from __future__ import annotations

import json
import math
import os
import secrets
import select
import selectors
import socket
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from paceline.rendezvous.acceptor import peer_credentials

MAX_MESSAGE = 1 << 18
"""Bytes of a message: enough for the description of a batch of as many tensors as it may have."""
_BUFFER = 1 << 21
"""Bytes that a socket should hold, so that whoever sends hardly ever waits."""

_open: weakref.WeakSet[Endpoint] = weakref.WeakSet()


class Gone(Exception):
    """The process at the other end closed the connection, or ended."""


class Endpoint:
    """One end of a connection. Messages come whole and in order."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        _open.add(self)

    def fileno(self) -> int:
        """The descriptor, for `select`."""
        return self._socket.fileno()

    def send(self, message: dict[str, Any], descriptors: Iterable[int] = ()) -> None:
        """Send a message, and open files with it. Raises Gone if the other end is."""
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MAX_MESSAGE:
            raise ValueError(f"the description of a batch has {len(data)} bytes, more than {MAX_MESSAGE}")
        try:
            socket.send_fds(self._socket, [data], list(descriptors))
        except OSError as error:
            raise Gone(error.strerror) from None

    def receive(self, timeout: float | None) -> tuple[dict[str, Any], list[int]]:
        """Return the next message and the files that came with it, which the caller owns.

        timeout: seconds, None for ever. Raises TimeoutError, Gone, and ValueError for what is no message.
        """
        try:
            # The socket stays blocking: a garbage collection may send something while this thread waits here.
            poller = select.poll()
            poller.register(self._socket, select.POLLIN)
            if not poller.poll(None if timeout is None else math.ceil(1000 * timeout)):
                raise TimeoutError
            data, descriptors, *_ = self._next()
        except (TimeoutError, BlockingIOError):
            raise TimeoutError from None
        except (OSError, ValueError) as error:  # ValueError: this end is closed
            raise Gone(str(error)) from None
        if not data:
            raise Gone("it ended")
        try:
            message = json.loads(data) if len(data) <= MAX_MESSAGE else None
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            for descriptor in descriptors:
                os.close(descriptor)
            raise ValueError(f"a message of {len(data)} bytes that is no JSON object")
        return message, list(descriptors)

    def _next(self) -> tuple[bytes, list[int], int, Any]:
        try:
            return socket.recv_fds(self._socket, MAX_MESSAGE + 1, 4, socket.MSG_DONTWAIT)
        except ConnectionResetError:  # the other end closed; said once, before what it had sent
            return socket.recv_fds(self._socket, MAX_MESSAGE + 1, 4, socket.MSG_DONTWAIT)

    def shut_down(self) -> None:
        """Let the other end see that no more comes; may be called while another thread uses this end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


class Absent(TimeoutError):
    """These ranks did not come for batches in time."""

    def __init__(self, ranks: list[int]) -> None:
        super().__init__(f"ranks {ranks} did not come for batches in time")
        self.ranks = ranks


class Door:
    """The socket of a machine's ranks, by a name that is a secret of theirs and vanishes with this process."""

    def __init__(self) -> None:
        self.name = f"paceline-batches-{secrets.token_hex(16)}"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.bind(f"\0{self.name}")
        self._socket.listen(64)

    def admit(self, ranks: Iterable[int], timeout: float) -> dict[int, Endpoint]:
        """Return the connections of these ranks; any other caller is turned away.

        timeout: seconds for all of them. Raises Absent.
        """
        missing, found = set(ranks), dict[int, Endpoint]()
        deadline = time.monotonic() + timeout
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            try:
                while missing:
                    ready = selector.select(max(0.0, deadline - time.monotonic()))
                    if not ready:
                        raise Absent(sorted(missing))
                    for key, _ in ready:
                        if key.fileobj is self._socket:
                            if (caller := self._accept()) is not None:
                                selector.register(caller, selectors.EVENT_READ)
                        elif isinstance(endpoint := key.fileobj, Endpoint):
                            selector.unregister(endpoint)
                            if (rank := _introduced(endpoint)) in missing:
                                missing.discard(rank)
                                found[rank] = endpoint
                            else:
                                endpoint.close()
            finally:
                for key in list(selector.get_map().values()):
                    if isinstance(key.fileobj, Endpoint):
                        key.fileobj.close()
        return found

    def _accept(self) -> Endpoint | None:
        """Return the next caller, None where it is another user's process."""
        sock, _ = self._socket.accept()
        if peer_credentials(sock)[1] == os.geteuid():
            return Endpoint(sock)
        sock.close()
        return None

    def close(self) -> None:
        """Admit nobody any more."""
        self._socket.close()


def call(name: str, rank: int, timeout: float) -> Endpoint:
    """Connect to the door with this name. timeout: seconds. Raises OSError."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        sock.settimeout(timeout)
        sock.connect(f"\0{name}")
        if peer_credentials(sock)[1] != os.geteuid():
            raise PermissionError("another user's process has its name")
        endpoint = Endpoint(sock)
        endpoint.send({"rank": rank})
    except BaseException:
        sock.close()
        raise
    return endpoint


def pair() -> tuple[Endpoint, Endpoint]:
    """Return both ends of a connection of this process with itself."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    return Endpoint(one), Endpoint(other)


def _introduced(endpoint: Endpoint) -> int:
    """The rank that a caller, which has said something, says that it is; -1 if it says nothing of the kind."""
    try:
        message, descriptors = endpoint.receive(0)
    except (TimeoutError, Gone, ValueError):
        return -1
    for descriptor in descriptors:
        os.close(descriptor)
    rank = message.get("rank")
    return rank if type(rank) is int else -1


def _forget_all() -> None:
    # Input workers that are forked must not keep a connection open whose process has ended.
    for endpoint in list(_open):
        endpoint.close()


os.register_at_fork(after_in_child=_forget_all)
