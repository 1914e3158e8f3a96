"""A process that is killed while the ranks meet is named on every other rank, and not waited for."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from rendezvous_fakes import FakeArena, FakeNative, in_threads, process, settings

from paceline.errors import Culprit, RendezvousError
from paceline.rendezvous import Process, meet, open_store
from paceline.rendezvous.deadline import Deadline

DEADLINE = 150.0
TIMEOUT = 10 * DEADLINE
"""Of the meeting, in seconds: whoever waited for it would be late."""

# Rank 1 of 3 kills itself: before it says where it listens, or while rank 2 calls it, or while it calls rank 0.
VICTIM = """
import os, signal, sys
from rendezvous_fakes import FakeArena, FakeNative, process, settings
from paceline.rendezvous import meet, open_store

def die(*ignored):
    os.kill(os.getpid(), signal.SIGKILL)

native, (job, moment) = FakeNative(), sys.argv[1:]
setattr(native, moment, die)
mine = settings(1, 3, local_size=3, job=job)
store = open_store(mine, 600.0)
arena = FakeArena()
meet(
    store, 1, 3, 600.0,
    process=process(), settings=mine, native=native, arena=arena.descriptor, linked=(), used=set(),
)
"""


class ForeignNative(FakeNative):
    """Others may be other processes, which a fake cannot read."""

    def can_read(self, pid: int, address: int) -> bool:
        return False


def survivor(job: str, rank: int, who: Process) -> tuple[str, Culprit]:
    mine = settings(rank, 3, local_size=3, job=job)
    store = open_store(mine, TIMEOUT)
    arena = FakeArena()
    try:
        with pytest.raises(RendezvousError) as caught:
            meet(
                store,
                rank,
                3,
                TIMEOUT,
                process=who,
                settings=mine,
                native=ForeignNative(),
                arena=arena.descriptor,
                linked=(),
                used=set(),
            )
        return str(caught.value), caught.value.culprit
    finally:
        store.close(Deadline(TIMEOUT))


@pytest.mark.parametrize("moment", ["allow_reads", "create_link_memory", "can_read"])
def test_a_killed_rank_is_named(moment: str) -> None:
    job = secrets.token_hex(8)
    here = Path(__file__).parent
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
    with subprocess.Popen([sys.executable, "-c", VICTIM, job, moment], env=environ) as victim:
        results = in_threads([partial(survivor, job, rank, process()) for rank in (0, 2)], DEADLINE)
        assert victim.wait(DEADLINE) == -signal.SIGKILL
    for error in results:
        assert isinstance(error, tuple), error
        said, culprit = error
        assert f"rank 1 (host host, pid {victim.pid}) died while the ranks met" in said
        assert culprit == Culprit(1, "host", victim.pid)
