"""The errors of ranks that read batches together."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.errors import NOBODY, CommunicationError, Culprit, PeerLost, Timeout
from paceline.formats.numbers import in_full

_READER = "which reads this machine's batches,"


class ReadingFailed(RuntimeError):
    """The batches of this machine could not be read: the dataset raised, or an input worker ended.

    rank, host, pid: the process that reads for the machine. reason: the traceback, or the end of it.
    """

    def __init__(self, reader: Culprit, reason: str) -> None:
        super().__init__(f"rank {reader.rank}, {_READER} could not read the next one:\n{reason}")
        self.rank, self.host, self.pid = reader
        self.reason = reason


def lost(reader: Culprit, what: str) -> PeerLost:
    """The process that reads is to blame for this. what: a verb and more, after its name."""
    error = PeerLost(f"{_named(reader)}, {_READER} {what}")
    _blame(error, reader)
    return error


def late(reader: Culprit, seconds: float) -> Timeout:
    """The process that reads had no batch for so many seconds."""
    error = Timeout(f"{_named(reader)}, {_READER} had none for {in_full(seconds)} s")
    _blame(error, reader)
    return error


def absent(processes: Sequence[Culprit], seconds: float) -> Timeout:
    """These processes did not come for the batches of their machine within so many seconds."""
    error = Timeout(f"{', '.join(map(_named, processes))} did not come for batches within {in_full(seconds)} s")
    _blame(error, processes[0] if len(processes) == 1 else NOBODY)
    return error


def unshared(process: Culprit, reason: str) -> CommunicationError:
    """This process could not make the memory that batches would be in."""
    error = CommunicationError(f"{_named(process)} cannot share batches with its machine's ranks: {reason}")
    _blame(error, process)
    return error


def _named(process: Culprit) -> str:
    return f"rank {process.rank} (host {process.host}, pid {process.pid})"


def _blame(error: CommunicationError, culprit: Culprit) -> None:
    error.rank, error.host, error.pid = culprit
    error.operation = "batch"
