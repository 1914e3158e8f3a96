"""Carries a partition out in this process: threads go where it says, and what the user bound stays where it is."""

from __future__ import annotations

import logging
import os
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.cpu.partition import Partition

log = logging.getLogger("paceline")

_PASSES = 3
"""Over the threads of the process: some may start meanwhile, with the mask of the thread that starts them."""


@dataclass(frozen=True, slots=True)
class InputWorkers:
    """What an input worker calls first with its number (a DataLoader's worker_init_fn): it goes to the input CPUs.

    cpus: empty to stay where it is. then: called afterwards with the number, so what the user does there comes last.
    """

    cpus: tuple[int, ...]
    then: Callable[[int], object] | None = None

    def __call__(self, worker: int) -> None:
        """In the worker's own process."""
        move(self.cpus)
        if self.then is not None:
            self.then(worker)


def move(cpus: tuple[int, ...]) -> None:
    """Let this thread run on these CPUs only, if there are any; where the kernel refuses, it stays."""
    if cpus:
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)


def place_compute(partition: Partition, affinity: tuple[int, ...], bound_by: str | None) -> str:
    """Move the process's threads that run where the process does (`affinity`) to the compute CPUs; says what stays.

    A thread with an affinity of its own was bound by somebody, and stays. bound_by: the variable by which the user told
    OpenMP where its threads go; then all stay.
    """
    if not partition.parts.compute:
        return ""
    if bound_by is not None:
        return f"compute stays as {bound_by} says"
    kept, refused = _move_all(affinity, partition.parts.compute)
    if refused:
        return f"the kernel refuses to pin threads ({refused.strerror}): nothing was done"
    return f"threads that were bound elsewhere stay there: {kept}" if kept else ""


def release_compute(partition: Partition, affinity: tuple[int, ...]) -> None:
    """The threads on the compute CPUs may run on all of `affinity` again."""
    if partition.parts.compute:
        _move_all(partition.parts.compute, affinity)


def _move_all(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, OSError | None]:
    """Threads with exactly the affinity `before` get `after`; how many have yet another, and the kernel's refusal."""
    others: set[int] = set()
    for _ in range(_PASSES):
        for thread in {int(entry.name) for entry in Path("/proc/self/task").iterdir()} - others:
            try:
                now = os.sched_getaffinity(thread)
                if now == set(before):
                    os.sched_setaffinity(thread, after)
                elif now != set(after):
                    others.add(thread)
            except ProcessLookupError:  # it has ended
                continue
            except OSError as error:
                return 0, error
    return len(others), None


def say(partition: Partition, notes: str, rank: int, thread_count: str | None) -> None:
    """Rank 0 prints what was done, and why; the others do so in the log, at level INFO."""
    threads = f"; {advice}" if (advice := thread_advice(partition, thread_count)) else ""
    line = f"cores: {partition.parts} ({partition.reason}){threads}{'; ' * bool(notes)}{notes}"
    if rank == 0:
        print(f"paceline: rank 0 on {socket.gethostname()}: {line}", file=sys.stderr, flush=True)
    else:
        log.info("%s", line)


def thread_advice(partition: Partition, thread_count: str | None) -> str:
    """What the number of computing threads is, or should be: it is the user's, so it is not changed in a rank."""
    if thread_count is not None:
        return f"OMP_NUM_THREADS={thread_count}"
    if partition.threads is None:
        return ""
    return f"set OMP_NUM_THREADS={partition.threads} (paceline run does): compute would start a thread for every CPU"
