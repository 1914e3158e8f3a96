"""The exchange of addresses among the ranks of TensorFlow's approaches."""

from __future__ import annotations

import os
import socket
import time

from ..wire import Lines

_AGAIN_SECONDS = 0.05
"""Seconds between two attempts to reach rank 0."""


def addresses(timeout: float) -> list[str]:
    """Return "host:port" of every rank, by rank, with a port on each that was free. Collective.

    The ranks meet at the address that RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT name. Raises OSError, also
    TimeoutError after `timeout` seconds.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    there = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    deadline = time.monotonic() + timeout
    if rank == 0:
        return _gather(there, size, deadline)
    member = Lines(_reach(there, deadline))
    host = member.connection.getsockname()[0]
    member.send({"rank": rank, "address": f"{host}:{_free_port(host)}"})
    found: list[str] = member.receive()["addresses"]
    member.close()
    return found


def _gather(here: tuple[str, int], size: int, deadline: float) -> list[str]:
    members: list[Lines] = []
    with socket.create_server(here) as listener:
        own = listener.getsockname()[0]
        found = {0: f"{own}:{_free_port(own)}"}
        while len(members) < size - 1:
            listener.settimeout(max(0.01, deadline - time.monotonic()))
            connection, _ = listener.accept()
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            members.append(Lines(connection))
    for member in members:
        told = member.receive()
        found[int(told["rank"])] = str(told["address"])
    ordered = [found[rank] for rank in range(size)]
    for member in members:
        member.send({"addresses": ordered})
        member.close()
    return ordered


def _reach(there: tuple[str, int], deadline: float) -> socket.socket:
    while True:
        try:
            connection = socket.create_connection(there, 1)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_AGAIN_SECONDS)
        else:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            return connection


def _free_port(host: str) -> int:
    with socket.socket() as one:
        one.bind((host, 0))
        port: int = one.getsockname()[1]
        return port
