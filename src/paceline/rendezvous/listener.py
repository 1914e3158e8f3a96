"""Open listening sockets, one kind per function. They are open only while ranks meet."""

from __future__ import annotations

import errno
import ipaddress
import random
import socket

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
    if ports is None:
        numbers = [0]
    else:
        numbers = list(range(ports[0], ports[1] + 1))
        random.shuffle(numbers)  # the ranks of a machine choose at the same time
    for number in numbers:
        try:
            sock = bind_tcp(address, number)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                continue
            raise RendezvousError(f"cannot listen on {address}: {error.strerror}") from None
        return sock, TcpAddress(address, sock.getsockname()[1])
    span = "any port" if ports is None else f"the ports {ports[0]}-{ports[1]} (PACELINE_PORTS)"
    raise RendezvousError(f"cannot listen on {address}: {span} are all in use")


def bind_tcp(address: str, port: int) -> socket.socket:
    """Return a socket that listens on an IP address and port (0: any). Raises OSError."""
    family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        avoid_bbr(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    return sock
