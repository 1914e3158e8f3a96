"""Connections never begin with BBR, and take it up only over long ways, where it is the system's choice; over short
ways they soon send again what was lost."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.lab.lab import Lab, switched
from paceline.rendezvous.congestion import _RTO_MIN_US, avoid_bbr, suit_to_way

PAIR = """
import socket
from paceline.calibration import rendezvous as fitted
from paceline.rendezvous import congestion
from paceline.rendezvous.dial import TcpAddress, connect
from paceline.rendezvous.listener import bind_tcp

with open("/proc/sys/net/ipv4/tcp_congestion_control", "w") as system:
    system.write("bbr")
with bind_tcp("127.0.0.1", 0) as door, connect(TcpAddress("127.0.0.1", door.getsockname()[1]), 10.0) as caller:
    called, _ = door.accept()
    with called:
        for long_way in (fitted.LONG_WAY_SECONDS, 0.0):
            fitted.LONG_WAY_SECONDS = long_way
            for sock in (caller, called):
                print(congestion._used_by(sock), end=" ")
                congestion.suit_to_way(sock)
                print(congestion._used_by(sock))
"""


@pytest.mark.needs("a lab")
def test_where_the_system_chose_bbr_it_is_taken_up_over_long_ways_alone() -> None:
    if "bbr" not in Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split():
        pytest.skip("this kernel has no BBR")
    with Lab(switched([1, 1])) as lab:
        done = subprocess.run([*lab.exec(0), sys.executable, "-c", PAIR], capture_output=True, text=True, timeout=150)
    assert done.stdout.splitlines() == ["cubic cubic"] * 2 + ["cubic bbr"] * 2, done.stderr


def test_nothing_but_bbr_is_avoided() -> None:
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().split()
    for name in allowed:
        with socket.socket() as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
            avoid_bbr(sock)
            used = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
            assert used == name or (name.startswith("bbr") and used in ("cubic", "reno"))


def test_over_a_short_way_what_was_lost_is_sent_again_soon() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname(), 10) as caller:
        try:
            usual = caller.getsockopt(socket.IPPROTO_TCP, _RTO_MIN_US)
        except OSError:
            pytest.skip("this kernel lets no connection choose when it sends again")
        suit_to_way(caller)
        # Microseconds, rounded up to the kernel's clock.
        assert 20_000 <= caller.getsockopt(socket.IPPROTO_TCP, _RTO_MIN_US) < min(usual, 40_000)
