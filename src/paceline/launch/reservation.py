"""The port at which the ranks of a job meet, kept from other processes until rank 0 listens there."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from paceline.errors import RendezvousError
from paceline.rendezvous.dial import TcpAddress
from paceline.rendezvous.listener import reserve_tcp
from paceline.settings.settings import port_range


def reserve(address: str, environ: Mapping[str, str]) -> tuple[socket.socket, TcpAddress]:
    """Return a socket that keeps a port at `address` for rank 0, and where it is. PACELINE_PORTS of `environ` counts.

    Raises ValueError if no port can be had.
    """
    try:
        return reserve_tcp(address, port_range(environ))
    except RendezvousError as error:
        raise ValueError(str(error)) from None
