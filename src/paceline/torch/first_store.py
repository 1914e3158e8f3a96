"""torch's store at an address that all ranks know, made without a silent wait.

torch's own handlers let rank 0 wait in the store's constructor until all ranks have come, and the others until rank 0
listens, and neither says a word. Here rank 0 goes on, so that the ranks meet in `paceline.rendezvous`, which names who
is missing, and the others say what keeps them from rank 0.
"""

from __future__ import annotations

import socket
from datetime import timedelta

import torch.distributed as dist

from paceline.rendezvous.conversation import Conversation
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress, reach, wait_for_name
from paceline.rendezvous.reminder import Reminder


def store_at(place: TcpAddress, rank: int, size: int, seconds: float, stall: float | None) -> dist.Store:
    """Rank 0 serves it, the others are its clients. Raises RendezvousError after `seconds`. stall: see `Reminder`."""
    deadline, reminder = Deadline(seconds), Reminder(stall)
    if rank == 0:
        wait_for_name(place.host, deadline, reminder)
    else:
        _, sock = reach([place], _hang_up, deadline, who="torch's store of rank 0", reminder=reminder)
        sock.close()
    return dist.TCPStore(
        place.host,
        place.port,
        size,
        rank == 0,
        timedelta(seconds=max(1.0, deadline.remaining())),
        wait_for_workers=False,
        multi_tenant=True,
    )


def _hang_up(sock: socket.socket) -> Conversation[None]:
    """Somebody listens: that is all there was to know."""
    yield from ()
