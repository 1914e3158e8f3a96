"""Open listening sockets, one kind per function. They are open only while ranks meet."""

from __future__ import annotations

import errno
import ipaddress
import random
import socket
from collections.abc import Callable

from paceline.errors import RendezvousError
from paceline.rendezvous.congestion import avoid_bbr
from paceline.rendezvous.dial import TcpAddress, UnixName, unix_address

_BACKLOG = 1024


def listen_unix(name: UnixName) -> socket.socket:
    """Return a socket that listens in the abstract namespace. Raises OSError (EADDRINUSE) when the name is taken."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(unix_address(name))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock


def listen_tcp(address: str, ports: tuple[int, int] | None) -> tuple[socket.socket, TcpAddress]:
    """Return a socket that listens on exactly this IP address, and where it listens.

    ports: the first and last port of a range (PACELINE_PORTS); None lets the kernel pick one. The port is bound before
    other ranks learn of it. Raises RendezvousError if the address or all ports of the range are unavailable.
    """
    sock = _first_free(bind_tcp, address, ports)
    return sock, TcpAddress(address, sock.getsockname()[1])


def reserve_tcp(address: str, ports: tuple[int, int] | None) -> tuple[socket.socket, TcpAddress]:
    """Return a socket that keeps a port for a process that will listen on it with SO_REUSEADDR, and where that is.

    It does not listen itself. ports: as for `listen_tcp`. Raises RendezvousError as `listen_tcp`.
    """
    sock = _first_free(_keep, address, ports)
    return sock, TcpAddress(address, sock.getsockname()[1])


def _first_free(
    bind: Callable[[str, int], socket.socket], address: str, ports: tuple[int, int] | None
) -> socket.socket:
    if ports is None:
        numbers = [0]
    else:
        numbers = list(range(ports[0], ports[1] + 1))
        random.shuffle(numbers)  # the ranks of a machine choose at the same time
    for number in numbers:
        try:
            return bind(address, number)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise RendezvousError(f"cannot listen on {address}: {error.strerror}") from None
    span = "any port" if ports is None else f"the ports {ports[0]}-{ports[1]} (PACELINE_PORTS)"
    raise RendezvousError(f"cannot listen on {address}: {span} are all in use")


def _keep(address: str, port: int) -> socket.socket:
    sock = _tcp_socket(address)
    try:
        sock.bind((address, port))  # before SO_REUSEADDR, with which two that do not listen could bind one port
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except BaseException:
        sock.close()
        raise
    return sock


def _tcp_socket(address: str) -> socket.socket:
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM)


def bind_tcp(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an IP address and port (0: any). Raises OSError."""
    sock = _tcp_socket(address)
    try:
        avoid_bbr(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
