"""The errors of ranks that read batches together."""

from __future__ import annotations

from paceline.errors import CommunicationError, Culprit, PeerLost, Timeout

_READER = "which reads this machine's batches,"


class ReadingFailed(RuntimeError):
    """The batches of this machine could not be read: the dataset raised, or an input worker ended.

    rank: the rank whose process reads for the machine. reason: the traceback, or the end of it.
    """

    def __init__(self, rank: int, reason: str) -> None:
        super().__init__(f"rank {rank}, {_READER} could not read the next one:\n{reason}")
        self.rank = rank
        self.reason = reason


def lost(reader: Culprit, what: str) -> PeerLost:
    """The process that reads is to blame for this. what: a verb and more, after its name."""
    error = PeerLost(f"{_named(reader)} {what}")
    _blame(error, reader)
    return error


def late(reader: Culprit, seconds: float) -> Timeout:
    """The process that reads had no batch for so many seconds."""
    error = Timeout(f"{_named(reader)} had none for {seconds:g} s")
    _blame(error, reader)
    return error


def _named(reader: Culprit) -> str:
    return f"rank {reader.rank} (host {reader.host}, pid {reader.pid}), {_READER}"


def _blame(error: CommunicationError, culprit: Culprit) -> None:
    error.rank, error.host, error.pid = culprit
    error.operation = "batch"
