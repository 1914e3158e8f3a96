"""Process sets: some of the job's ranks, for collectives among them alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from paceline.horovod import job
from paceline.horovod.job import GLOBAL

NO_MPI = "Paceline does without MPI: give a list of ranks in place of a communicator"


class ProcessSet:
    """The given ranks, in ascending order. It can be used once `init` or `add_process_set` has registered it."""

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: Any = None

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if not isinstance(ranks_or_comm, Iterable):
            raise ValueError(f"a ProcessSet is made of a list of ranks. {NO_MPI}")
        ranks = list(ranks_or_comm)
        if any(not isinstance(rank, int) or isinstance(rank, bool) for rank in ranks):
            raise ValueError(f"ProcessSet should be initialized with a list of process ranks, got {ranks}")
        self.ranks = sorted(ranks)

    def size(self) -> int | None:
        """How many ranks; None before it is registered."""
        if self.process_set_id is None:
            return None
        return len(_registered(self.process_set_id))

    def rank(self) -> int | None:
        """This process's place among the ranks, None before it is registered. ValueError if it is not among them."""
        if self.process_set_id is None:
            return None
        ranks, me = _registered(self.process_set_id), job.current().rank
        if me not in ranks:
            raise ValueError("Process is not part of provided process set.")
        return ranks.index(me)

    def included(self) -> bool | None:
        """Whether this process is among the ranks."""
        return None if self.ranks is None else job.current().rank in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


global_process_set = ProcessSet([])
"""All ranks of the job."""
global_process_set.process_set_id = GLOBAL


def register_all(here: job.Job, process_sets: Sequence[ProcessSet]) -> None:
    """Register what `init` was given, and learn who is in the global process set. Every rank calls it alike.

    Raises ValueError for a set that is there twice.
    """
    global_process_set.ranks = list(here.sets[GLOBAL])
    for number, process_set in enumerate(process_sets):
        if not isinstance(process_set, ProcessSet):
            raise ValueError(f"process_sets should hold hvd.ProcessSet objects, entry {number} is {process_set!r}")
        try:
            _add(here, process_set)
        except ValueError as error:
            raise ValueError(
                f"Horovod could not be initialized because of process_sets entry {number}: {error}"
            ) from None


def add_process_set(process_set: ProcessSet | Sequence[int]) -> ProcessSet:
    """Register a process set. Collective: every rank of the job calls it, whether it is a member or not.

    Raises ValueError if there is one with the same ranks, or if the ranks of the job do not give the same.
    """
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    _add(job.current(), added)
    return added


def _add(here: job.Job, process_set: ProcessSet) -> None:
    number = here.add(process_set.ranks or [])
    if number is None:
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    process_set.process_set_id = number


def remove_process_set(process_set: ProcessSet) -> bool:
    """Give up a process set, on every rank of the job. False for the global one and for one not registered."""
    number = process_set.process_set_id
    if number is None or number == GLOBAL:
        return False
    process_set.process_set_id = None
    return job.current().remove(number)


def _registered(number: int) -> tuple[int, ...]:
    ranks = job.current().sets.get(number)
    if ranks is None:
        raise ValueError("Process set does not exist or has not been registered.")
    return ranks
