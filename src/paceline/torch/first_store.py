"""Makes torch's store at an address that all ranks know, without a silent wait.

torch's own handlers let rank 0 wait in the store's constructor until all ranks have come, and the others until rank 0
listens; neither says a word meanwhile. Here rank 0 goes on, so that the ranks meet in `paceline.rendezvous`, which
names the missing ranks, and the others say what keeps them from rank 0.
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
    """The store at `place`, which rank 0 serves to the others.

    Raises RendezvousError if it cannot be reached within `seconds`. stall: the seconds of `Reminder`.
    """
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
    """Say nothing: it is enough to know that a process listens."""
    yield from ()
