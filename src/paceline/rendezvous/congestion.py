"""Choose the congestion control of the streams between machines, and how soon they send again what was lost.

BBR paces a stream by what it carried before. A stream of a collective is idle while others have their turn, which BBR
takes for a slow link: it then waits for tens of milliseconds between packets, and for 200 ms of every 10 s it sends
four packets per round trip. The kernel goes on pacing a connection that began with BBR, even after a switch to another
algorithm: after a loss it waits as long between packets, by what CUBIC saw while queues were long. So connections begin
with CUBIC, or with Reno where CUBIC is not allowed. Over long distances, where these suffer from every random loss,
connections return to BBR.

A short queue or a policer may drop the last packets of a turn. No packet follows them that would tell the sender, and
the kernel sends them again only after 200 ms, the time of hundreds of messages. Over short ways streams do so earlier.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

from paceline.calibration import rendezvous as fitted

_ROUND_TRIP = struct.Struct("=68xI")
"""`tcpi_rtt` in Linux's `struct tcp_info`: microseconds."""
_RTO_MIN_US, _DELACK_MAX_US = 45, 46
"""`TCP_RTO_MIN_US` and `TCP_DELACK_MAX_US`, which Linux has since 6.15 and Python has no names for."""


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


def suit_to_way(sock: socket.socket) -> None:
    """Adapt a connected socket to its round trip.

    With a far end it returns to BBR, if that is the system's default; with a near one it sends lost packets again soon,
    where the kernel allows that. Raises OSError for a socket that is not TCP.
    """
    if _round_trip(sock) < fitted.LONG_WAY_SECONDS:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _DELACK_MAX_US, fitted.LATEST_ANSWER_US)
            sock.setsockopt(socket.IPPROTO_TCP, _RTO_MIN_US, fitted.SOONEST_RESEND_US)
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
