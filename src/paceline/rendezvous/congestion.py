"""Choose the congestion control of the streams between machines.

BBR paces a stream by what it carried before. A stream of a collective is idle while others have their turn, which BBR
takes for a slow link: it then waits for tens of milliseconds between packets, and for 200 ms of every 10 s it sends
four packets per round trip. The kernel goes on pacing a connection that began with BBR, even after a switch to another
algorithm: after a loss it waits as long between packets, by what CUBIC saw while queues were long. So connections begin
with CUBIC, or with Reno where CUBIC is not allowed. Over long distances, where these suffer from every random loss,
connections return to BBR.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

_LONG_WAY = 0.010
"""Seconds of a round trip, from which on a connection is long."""
_ROUND_TRIP = struct.Struct("=68xI")
"""`tcpi_rtt` in Linux's `struct tcp_info`: microseconds."""


def avoid_bbr(sock: socket.socket) -> None:
    """Use CUBIC or Reno on a socket that would use BBR. Call it before the socket connects or listens.

    Sockets that a listening socket accepts inherit the choice. Raises OSError for a socket that is not TCP.
    """
    if not _used_by(sock).startswith("bbr"):
        return
    for name in ("cubic", "reno"):
        with suppress(OSError):
            _choose(sock, name)
            return


def allow_bbr(sock: socket.socket) -> None:
    """Return a connected socket with a far end to BBR, if that is the system's default.

    Raises OSError for a socket that is not TCP.
    """
    if _round_trip(sock) < _LONG_WAY:
        return
    with socket.socket(sock.family, socket.SOCK_STREAM) as fresh:
        chosen = _used_by(fresh)
    if chosen.startswith("bbr"):
        with suppress(OSError):
            _choose(sock, chosen)


def _used_by(sock: socket.socket) -> str:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()


def _choose(sock: socket.socket, name: str) -> None:
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


def _round_trip(sock: socket.socket) -> float:
    (microseconds,) = _ROUND_TRIP.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ROUND_TRIP.size))
    return float(microseconds) * 1e-6
