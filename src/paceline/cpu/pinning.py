"""Apply a partition to this process: its threads move to the CPUs of their part, unless the user bound them."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from paceline.cpu.partition import Partition
from paceline.host_name import host_name

log = logging.getLogger("paceline")

_PASSES = 3
"""Passes over the threads of the process, since new ones may start meanwhile with the mask of their creator."""


@dataclass(frozen=True, slots=True)
class InputWorkers:
    """A DataLoader's worker_init_fn, which moves an input worker to the input CPUs.

    cpus: the CPU numbers; empty to stay where it is. then: the user's own function, called afterwards with the worker's
    number, so that what it does comes last.
    """

    cpus: tuple[int, ...]
    then: Callable[[int], object] | None = None

    def __call__(self, worker: int) -> None:
        """Move the calling process, which is the input worker with number `worker`."""
        move(self.cpus)
        if self.then is not None:
            self.then(worker)


def move(cpus: tuple[int, ...]) -> None:
    """Let the calling thread run only on these CPUs; it stays where there are none, or where the kernel refuses."""
    if cpus:
        with suppress(OSError):
            os.sched_setaffinity(0, cpus)


def place_compute(partition: Partition, affinity: tuple[int, ...], bound_by: str | None) -> str:
    """Move the process's threads to the compute CPUs; return a note on threads that stay, empty where all move.

    affinity: the CPUs of the process. A thread with another affinity was bound on purpose, and stays.
    bound_by: the name of the variable by which the user binds OpenMP's threads; with one, all threads stay.
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
    """Let the threads on the compute CPUs run on all of `affinity` again."""
    if partition.parts.compute:
        _move_all(partition.parts.compute, affinity)


def _move_all(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, OSError | None]:
    """Move the threads with exactly the affinity `before` to `after`.

    Return the number of threads with yet another affinity, and the kernel's refusal.
    """
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
    """Report what was done, and why: rank 0 prints it to stderr, the others log it at level INFO.

    notes: what `place_compute` returned. thread_count: the text of OMP_NUM_THREADS, None where it is not set.
    """
    threads = f"; {advice}" if (advice := thread_advice(partition, thread_count)) else ""
    line = f"cores: {partition.parts} ({partition.reason}){threads}{'; ' * bool(notes)}{notes}"
    if rank == 0:
        print(f"paceline: rank 0 on {host_name()}: {line}", file=sys.stderr, flush=True)
    else:
        log.info("%s", line)


def thread_advice(partition: Partition, thread_count: str | None) -> str:
    """Return a text with the number of computing threads, or with the number that they should have.

    The number is the user's choice, so a rank does not change it. thread_count: the text of OMP_NUM_THREADS.
    """
    if thread_count is not None:
        return f"OMP_NUM_THREADS={thread_count}"
    if partition.threads is None:
        return ""
    return f"set OMP_NUM_THREADS={partition.threads} (paceline run does): compute would start a thread for every CPU"
