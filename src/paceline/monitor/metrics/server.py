"""An HTTP server for one page, with limits on the clients, the bytes that it reads, and the time of each client."""

from __future__ import annotations

import contextlib
import hmac
import io
import logging
import os
import socket
import threading
import time
import weakref
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler
from prometheus_client.registry import Collector

from paceline.settings.parsers import MetricsAddress

REQUEST_SECONDS, ANSWER_SECONDS = 2.0, 5.0
"""Seconds that a client has to send its request, and to receive the answer."""
MAX_REQUEST = 8192
"""The most bytes of a request."""
AT_ONCE = 4
"""Clients that are served at a time. A further one takes the place of the one whose request is overdue for longest, and
is hung up on where all of them receive answers."""

log = logging.getLogger("paceline")
_open: weakref.WeakSet[Server] = weakref.WeakSet()


class Server:
    """Serves /metrics to clients that send `Authorization: Bearer TOKEN`.

    address: the host and the last port to try. first: the first port to try.

    It listens on the first free port of that range. Raises OSError if there is none.
    """

    def __init__(self, address: MetricsAddress, first: int, token: str, collector: Collector) -> None:
        registry = CollectorRegistry(support_collectors_without_names=True)
        registry.register(collector)
        self._registry, self._token = registry, token.encode()
        self._socket = _listen(address, first)
        self._places = threading.BoundedSemaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._silent: list[socket.socket] = []
        """Clients that have yet to send a request, the oldest first."""
        _open.add(self)
        self._thread = threading.Thread(target=self._serve, name="paceline-metrics", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._socket.getsockname()[1])

    def close(self) -> None:
        """Stop listening. Clients that are being served are not waited for."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # ends accept
        self._thread.join(ANSWER_SECONDS)
        self.close_socket()

    def close_socket(self) -> None:
        """Close this process's copy of the socket."""
        _open.discard(self)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError as error:
                if self._socket.fileno() < 0 or not _listens(self._socket):
                    return
                log.debug("cannot take a request for metrics: %s", error)
                time.sleep(1.0)  # perhaps there are no descriptors left
                continue
            if not self._places.acquire(blocking=False):
                self._drop_oldest()
                if not self._places.acquire(timeout=REQUEST_SECONDS):
                    client.close()
                    continue
            with self._lock:
                self._silent.append(client)
            try:
                threading.Thread(target=self._answer, args=(client,), name="paceline-metrics", daemon=True).start()
            except RuntimeError:  # an interpreter that is ending starts no threads
                self._answer(client)

    def _drop_oldest(self) -> None:
        with self._lock, contextlib.suppress(OSError):
            if self._silent:
                self._silent.pop(0).shutdown(socket.SHUT_RDWR)  # its thread, which reads, gives up its place

    def _request(self, client: socket.socket) -> bytes | None:
        try:
            return _read(client, time.monotonic() + REQUEST_SECONDS)
        finally:
            with self._lock, contextlib.suppress(ValueError):  # it may have been dropped
                self._silent.remove(client)

    def _answer(self, client: socket.socket) -> None:
        try:
            with client:
                request = self._request(client)
                if request is not None:
                    client.settimeout(ANSWER_SECONDS)
                    client.sendall(_reply(request, self._registry, self._token))
                    client.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the client closed the connection or was too slow
        finally:
            self._places.release()


class _Page(MetricsHandler):
    """Handles one request, already read, and writes the reply to memory."""

    server_version, sys_version = "paceline", ""

    def __init__(self, request: bytes, registry: CollectorRegistry, token: bytes) -> None:
        self.rfile, self.wfile = io.BytesIO(request), io.BytesIO()
        self.registry, self._token = registry, token
        self.client_address = ("", 0)
        self.handle_one_request()

    def do_GET(self) -> None:
        given = self.headers.get("Authorization", "").encode()
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            self.send_response(HTTPStatus.UNAUTHORIZED)
            self.send_header("WWW-Authenticate", 'Bearer realm="paceline"')
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif self.path.partition("?")[0] != "/metrics":
            self.send_error(HTTPStatus.NOT_FOUND, "There is only /metrics")
        else:
            super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because requests contain the token."""


def _reply(request: bytes, registry: CollectorRegistry, token: bytes) -> bytes:
    page = _Page(request, registry, token)
    return page.wfile.getvalue()  # type: ignore[attr-defined, no-any-return]


def _read(client: socket.socket, deadline: float) -> bytes | None:
    """Return the head of a request; None if it is too long or incomplete. Raises OSError, also on a timeout."""
    data = b""
    while b"\r\n\r\n" not in data:
        client.settimeout(max(0.001, deadline - time.monotonic()))
        part = client.recv(MAX_REQUEST + 1 - len(data))
        data += part
        if not part or len(data) > MAX_REQUEST:
            return None
    return data


def _listen(address: MetricsAddress, first: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    refused: OSError | None = None
    for port in range(first, address.high + 1):
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address.host, port))
            sock.listen(AT_ONCE)
            return sock
        except OSError as error:
            sock.close()
            refused = error
    raise refused or OSError(f"there are fewer ports up to {address.high} than ranks on this machine")


def _listens(sock: socket.socket) -> bool:
    try:
        return bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:
        return False


def _forget() -> None:
    for server in list(_open):
        server.close_socket()


# A forked child must not keep the port in use after this process has ended.
os.register_at_fork(after_in_child=_forget)
