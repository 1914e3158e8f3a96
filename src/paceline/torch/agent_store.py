"""The store that torchrun's agent serves: a process connects to it once, for all groups that it makes.

torch connects anew in every `init_process_group`, and each time looks up the name of the address. Where that asks a
name server, one lost packet costs 5 s, which is the resolver's timeout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from functools import partial

import torch.distributed as dist

from paceline.errors import RendezvousError
from paceline.rendezvous.bounded import answered
from paceline.rendezvous.deadline import LAST_WORDS, Deadline
from paceline.settings.settings import Settings

Met = tuple[dist.Store, int, int]
"""A store, this rank, and the number of ranks."""

_kept: dict[tuple[int, str | None, int | None, int], dist.Store] = {}  # by process, address and ranks


def first_or_kept(found: Iterator[Met], seconds: float, settings: Settings, who: str) -> Met:
    """The store that this process has kept, if its agent still answers; else what torch's handler yields.

    Raises RendezvousError if the agent is silent for `seconds`. who: the store, for messages.
    """
    last, stall = Deadline(seconds).later(LAST_WORDS), settings.stall_seconds
    place = os.getpid(), settings.master_address, settings.master_port, settings.size
    store = _kept.pop(place, None)
    if store is not None:
        try:
            answered(partial(store.check, [who]), last, who, stall)
            store.set_timeout(timedelta(seconds=seconds))
        except RendezvousError:
            raise
        except Exception:  # the agent has ended, and perhaps another one serves there
            store = None
    met = answered(partial(next, found), last, who, stall) if store is None else (store, settings.rank, settings.size)
    _kept[place] = met[0]
    return met
