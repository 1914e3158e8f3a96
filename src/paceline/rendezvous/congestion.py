"""Which congestion control the streams between machines use, and how soon they send again what was lost.

BBR paces a stream by what it carried before. A stream of a collective is idle while others have their turn, which BBR
takes for a slow link: it then waits for tens of milliseconds between packets; and for 200 ms of every 10 s it sends
four a round trip. The kernel goes on pacing a connection that began with BBR, whatever it uses later: after a loss it
waits as much between packets, by what CUBIC had seen while queues were long. So connections begin with CUBIC, or where
that is not allowed with Reno. Over long ways, where these suffer from every packet that is lost by chance, BBR is
taken up again.

Where a short queue or a policer drops the last packets of a turn, nothing comes behind them that would tell, and the
kernel sends again after 200 ms, the time of hundreds of messages. Over short ways it does so earlier.
"""

from __future__ import annotations

import socket
import struct
from contextlib import suppress

_LONG_WAY = 0.010
"""Seconds there and back."""
_ROUND_TRIP = struct.Struct("=68xI")
"""`tcpi_rtt` in Linux's `struct tcp_info`: microseconds."""
_RTO_MIN_US, _DELACK_MAX_US = 45, 46
"""`TCP_RTO_MIN_US` and `TCP_DELACK_MAX_US`, which Linux has since 6.15 and Python has no names for."""
_SOONEST_RESEND_US = 20_000
"""Microseconds beyond the round trip. Kernels have 4 or 10 ms between the ticks of their clock, and a receiver whose
CPU is busy may be late by a few: well above both, and well below 200 ms. From 8 ms to 20 ms it made no difference."""
_LATEST_ANSWER_US = 10_000
"""Microseconds until a packet that nothing follows is acknowledged: before it would be sent again."""


def avoid_bbr(sock: socket.socket) -> None:
    """To be called before it connects or listens; what it accepts then avoids BBR too."""
    if not _used_by(sock).startswith("bbr"):
        return
    for name in ("cubic", "reno"):
        with suppress(OSError):
            _choose(sock, name)
            return


def suit_to_way(sock: socket.socket) -> None:
    """To be called once it is connected: to an end that is far away it uses BBR if that is the system's choice; to one
    that is near it sends again soon, where the kernel lets it."""
    if _round_trip(sock) < _LONG_WAY:
        with suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, _DELACK_MAX_US, _LATEST_ANSWER_US)
            sock.setsockopt(socket.IPPROTO_TCP, _RTO_MIN_US, _SOONEST_RESEND_US)
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
