"""Process sets by the numbers that ops have."""

from __future__ import annotations

from paceline.horovod import job
from paceline.horovod.process_sets import ProcessSet


def number_of(process_set: ProcessSet) -> int:
    """Return the number of a process set for an op. Raises ValueError unless it is registered, and before `init`."""
    if process_set.process_set_id not in job.current().sets:
        raise ValueError("Process set provided does not exist, or has not been registered.")
    return process_set.process_set_id or job.GLOBAL


def set_of(number: int) -> ProcessSet:
    """Return the process set with this number, as an op's gradient needs it."""
    found = ProcessSet(job.current().sets[number])
    found.process_set_id = number
    return found
