"""Makes torch's store at an address that all ranks know, without a silent wait.

torch's own handlers let rank 0 wait in the store's constructor until all ranks have come, and the others until rank 0
listens; neither says a word meanwhile. Here rank 0 goes on, so that the ranks meet in `paceline.rendezvous`, which
names the missing ranks, and the others say what keeps them from rank 0.

After `destroy_process_group` another rank may call `init_process_group` again while rank 0 still serves the store of
before, which then ends under it. So rank 0 signs each store anew, and the others wait for a signature that they have
not seen.
"""

from __future__ import annotations

import logging
import socket
import time
from datetime import timedelta
from functools import partial

import torch.distributed as dist

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous.bounded import Answers, BoundedStore, answered
from paceline.rendezvous.conversation import Conversation
from paceline.rendezvous.deadline import LAST_WORDS, Deadline
from paceline.rendezvous.dial import TcpAddress, reach, wait_for_name
from paceline.rendezvous.handshake import new_ticket
from paceline.rendezvous.reminder import Reminder
from paceline.torch.store_server import of_rank_0

_log = logging.getLogger("paceline.rendezvous")
_SIGNATURE = "paceline/store"
"""The key of the signature."""
_LONGEST_PAUSE = 0.02
"""Seconds between two looks at the signature."""
_TRIES = 3
"""Torch takes the limit of its store for each of two tries to reach it, and pauses between them."""
_seen: set[bytes] = set()  # the signatures of the stores that this process has used


def store_at(place: TcpAddress, rank: int, size: int, seconds: float, stall: float | None) -> dist.Store:
    """The store at `place`, which rank 0 serves to the others.

    Raises RendezvousError if it cannot be reached within `seconds`. stall: the seconds of `Reminder`.
    """
    deadline, reminder = Deadline(seconds), Reminder(stall)
    if rank == 0:
        wait_for_name(place.host, deadline, reminder)
        store = _made(place, True, size, deadline, stall)
        store.set(_SIGNATURE, new_ticket().hex())
        return store
    while True:
        who = "torch's store of rank 0"
        _, sock = reach([place], _hang_up, deadline, who=who, culprit=Culprit(0), reminder=reminder)
        sock.close()
        try:
            store = _made(place, False, size, deadline, stall)
            _await_new(store, place, deadline, stall, reminder)
            return store
        except RendezvousError:
            raise
        except Exception as error:  # that of before has ended
            if deadline.passed:
                raise RendezvousError(f"torch's store, {place}, failed: {error}", Culprit(0)) from error
            _log.debug("torch's store, %s, ended: %s", place, error)
            time.sleep(_LONGEST_PAUSE)


def _made(place: TcpAddress, serves: bool, size: int, deadline: Deadline, stall: float | None) -> dist.Store:
    left = max(1.0, deadline.remaining())
    make = partial(
        dist.TCPStore,
        place.host,
        place.port,
        size,
        serves,
        timedelta(seconds=max(1.0, left / _TRIES)),
        wait_for_workers=False,
        multi_tenant=True,
    )
    store = answered(make, deadline.later(LAST_WORDS), _named(place), stall, Culprit(0))
    store.set_timeout(timedelta(seconds=left))
    return of_rank_0(store)


def _await_new(
    store: dist.Store, place: TcpAddress, deadline: Deadline, stall: float | None, reminder: Reminder
) -> None:
    """Wait until the store has a signature that is new to this process."""
    answers = Answers(_named(place), stall, Culprit(0))
    try:
        requests = BoundedStore(store, answers).within(deadline.later(LAST_WORDS))  # type: ignore[arg-type]
        problem = f"{_named(place)} is that of an earlier group: rank 0 has yet to call init_process_group again"
        while not requests.check([_SIGNATURE]) or (signature := requests.get(_SIGNATURE)) in _seen:
            if deadline.passed:
                raise RendezvousError(f"{problem}, which it did not within {deadline.seconds:g} s", Culprit(0))
            reminder.check(lambda: problem)
            time.sleep(_LONGEST_PAUSE)
        _seen.add(signature)
    finally:
        answers.close()


def _named(place: TcpAddress) -> str:
    return f"torch's store, {place},"


def _hang_up(sock: socket.socket) -> Conversation[None]:
    """Say nothing: it is enough to know that a process listens."""
    yield from ()
