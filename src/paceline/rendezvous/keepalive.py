"""Connections that are idle for long: what is on their way does not forget them, and lost ones are noticed."""

from __future__ import annotations

import socket

from paceline.calibration import rendezvous as fitted


def keep_alive(sock: socket.socket) -> None:
    """Have the kernel try this connection while nothing comes; does nothing where it cannot break unnoticed."""
    if sock.family == socket.AF_UNIX:
        return
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, fitted.KEPT_ALIVE_AFTER_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, fitted.KEPT_ALIVE_EVERY_SECONDS)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, fitted.KEPT_ALIVE_TRIES)
