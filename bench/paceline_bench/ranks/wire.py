"""Messages between the command and its ranks: one JSON object per line over a Unix socket."""

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
    """The other side has closed the connection."""


class Lines:
    """A connected stream socket that carries messages. Waiting in `receive` uses no CPU."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._pending = b""

    def fileno(self) -> int:
        """Return the socket's descriptor, so that selectors accept this object."""
        return self.connection.fileno()

    def send(self, message: Message) -> None:
        """Send one message. Raises Closed if the other side is gone."""
        try:
            self.connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise Closed(str(error)) from error

    def receive(self) -> Message:
        """Return the next message. Raises Closed at the end, and TimeoutError after the socket's own timeout."""
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
        """Close the socket; the other side then reads the end."""
        self.connection.close()


def listen(address: str, connections: int) -> socket.socket:
    """Return a Unix socket that listens at the file `address`, however long that path is."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(address) as short:
        listener.bind(short)
    listener.listen(connections)
    return listener


def connect(address: str) -> socket.socket:
    """Return a Unix socket connected to the listener at the file `address`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with _short(address) as short:
        connection.connect(short)
    return connection


@contextmanager
def _short(address: str) -> Iterator[str]:
    # The kernel takes at most 107 bytes, and the path of a temporary folder alone can be longer.
    path = Path(address)
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
