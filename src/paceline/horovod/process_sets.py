"""Process sets: subsets of the job's ranks that have collectives of their own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.errors import CommunicationError
from paceline.horovod import job
from paceline.horovod.exceptions import HorovodInternalError
from paceline.horovod.job import GLOBAL

NO_MPI = "Paceline does without MPI: give a list of ranks in place of a communicator"


class ProcessSet:
    """The given ranks, in ascending order. It can be used once `init` or `add_process_set` has registered it.

    Raises ValueError unless `ranks_or_comm` is a collection of integers.
    """

    process_set_id: int | None = None
    ranks: list[int] | None = None
    mpi_comm: object = None

    def __init__(self, ranks_or_comm: Iterable[int]) -> None:
        if not isinstance(ranks_or_comm, Iterable):
            raise ValueError(f"a ProcessSet is made of a list of ranks. {NO_MPI}")
        ranks = list(ranks_or_comm)
        if any(not isinstance(rank, int) or isinstance(rank, bool) for rank in ranks):
            raise ValueError(f"ProcessSet should be initialized with a list of process ranks, got {ranks}")
        self.ranks = sorted(ranks)

    def size(self) -> int | None:
        """Return the number of ranks; None before the set is registered."""
        if self.process_set_id is None:
            return None
        return len(_registered(self.process_set_id))

    def rank(self) -> int | None:
        """Return this process's index among the ranks; None before the set is registered.

        Raises ValueError if this process is not a member.
        """
        if self.process_set_id is None:
            return None
        ranks, me = _registered(self.process_set_id), job.current().rank
        if me not in ranks:
            raise ValueError("Process is not part of provided process set.")
        return ranks.index(me)

    def included(self) -> bool | None:
        """Return whether this process is a member; None if the ranks are not known yet."""
        return None if self.ranks is None else job.current().rank in self.ranks

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks}, mpi_comm={self.mpi_comm})"


global_process_set = ProcessSet([])
"""The process set of all ranks of the job."""
global_process_set.process_set_id = GLOBAL


def register_all(here: job.Job, process_sets: Sequence[ProcessSet]) -> None:
    """Register the process sets given to `init`, and set the ranks of the global one. Collective: every rank calls it
    alike.

    Raises ValueError for an entry that is not a ProcessSet, is invalid, or repeats another.
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
    """Register a process set and return it. Collective: every rank of the job calls it, member or not.

    Raises ValueError if there is a set with the same ranks, or if the ranks of the job pass different sets, and
    HorovodInternalError if a rank is lost.
    """
    added = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    try:
        _add(job.current(), added)
    except CommunicationError as error:
        raise HorovodInternalError(str(error)) from error
    return added


def _add(here: job.Job, process_set: ProcessSet) -> None:
    number = here.add(process_set.ranks or [])
    if number is None:
        raise ValueError(f"Attempted to add a duplicate process set: {process_set}")
    process_set.process_set_id = number

    def left() -> None:
        if process_set.process_set_id == number:
            process_set.process_set_id = None

    here.when_removed[number] = left


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set. Collective: every rank of the job calls it.

    Returns False for the global set and for a set that is not registered.
    """
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
