"""Ranks that meet as threads, each with a process identity and an engine of its own, for tests."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rendezvous_fakes import FakeArena, FakeNative, in_threads, process, settings

from paceline.errors import NOBODY, Culprit, RendezvousError
from paceline.rendezvous import (
    Meeting,
    Process,
    meet,
)
from paceline.rendezvous.store import MemoryStore, Store

TIMEOUT = 20.0


class Rank:
    """One process of a job, for several meetings."""

    def __init__(self, who: Process | None = None, native: FakeNative | None = None, **wishes: Any) -> None:
        self.process = who or process()
        self.native = native or FakeNative()
        self.wishes = wishes
        self.linked: set[str] = set()
        self.used: set[str] = set()

    def meet(self, store: Store | None, rank: int, size: int, timeout: float = TIMEOUT) -> Meeting:
        arena = FakeArena()
        meeting = meet(
            store,
            rank,
            size,
            timeout,
            process=self.process,
            settings=settings(rank, size, **self.wishes),
            native=self.native,
            arena=arena.descriptor,
            linked=self.linked,
            used=self.used,
        )
        self.linked |= {meeting.members[other].process for other in meeting.links}
        return meeting


def meet_all(ranks: Sequence[Rank], store: Store, timeout: float = TIMEOUT) -> list[Meeting | BaseException]:
    size = len(ranks)
    return in_threads([partial(rank.meet, store, index, size, timeout) for index, rank in enumerate(ranks)])


def close(meetings: Sequence[Any]) -> None:
    for meeting in meetings:
        if isinstance(meeting, Meeting):
            for link in meeting.links.values():
                link.close()


def expect_everywhere(ranks: Sequence[Rank], match: str, timeout: float = TIMEOUT, culprit: Culprit = NOBODY) -> None:
    for error in meet_all(ranks, MemoryStore(), timeout):
        assert type(error) is RendezvousError, error  # also where another rank's failure was heard of
        assert match in str(error)
        assert error.culprit == culprit
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.culprit, again.operation) == (str(error), culprit, "rendezvous")


def open_descriptors() -> set[str]:
    return {fd.name for fd in Path("/proc/self/fd").iterdir()}
