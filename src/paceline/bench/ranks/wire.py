"""One JSON object per line over a Unix socket, between the command and its ranks."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Message = dict[str, Any]


class Closed(ConnectionError):
    """The other side is gone."""


class Lines:
    """A connected stream socket that carries messages; blocked in ``receive`` it uses no CPU."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._pending = b""

    def fileno(self) -> int:
        """The socket's descriptor, so that selectors accept this object."""
        return self.connection.fileno()

    def send(self, message: Message) -> None:
        """Sends one message; raises ``Closed`` when nobody is there."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> Message:
        """The next message; raises ``Closed`` at the end, ``TimeoutError`` after the socket's own timeout."""
        while b"\n" not in self._pending:
            try:
                data = self.connection.recv(65536)
            except TimeoutError:
                raise
            except OSError as error:
                raise Closed(str(error)) from error
            if not data:
                raise Closed("the connection was closed")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        message: Message = json.loads(line)
        return message

    def close(self) -> None:
        """Closes the socket; the other side reads the end."""
        self.connection.close()


def listen(address: str, connections: int) -> socket.socket:
    """A Unix socket that listens at the file `address`, however long that path is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(address) as short:
        listener.bind(short)
    listener.listen(connections)
    return listener


def connect(address: str) -> socket.socket:
    """A Unix socket connected to the listener at the file `address`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(address) as short:
        connection.connect(short)
    return connection


@contextmanager
def _short(address: str) -> Iterator[str]:
    # The kernel takes 107 bytes at most; a temporary folder's path alone can be longer.
    path = Path(address)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
