"""A rank's report to its launcher that one of its groups has failed: the error it raises, and the rank to blame."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from dataclasses import asdict, dataclass

from paceline.errors import CommunicationError

LONGEST = 1024
"""Bytes of a report."""
_SECONDS = 2.0
"""Seconds that a rank waits at most for a launcher that does not listen."""


@dataclass(frozen=True, slots=True)
class FailureReport:
    """The failure of one rank.

    pid, rank: of the process that reports, its number that of the job. error: the class of its error. culprit: the rank
    that is to blame, as "rank 1 (host node0, pid 5)"; "" where that is not a single one.
    """

    pid: int
    rank: int
    error: str
    culprit: str


def send(collector: str, rank: int, error: CommunicationError) -> None:
    """Report `error` at the launcher's abstract Unix socket. Nothing happens where the launcher does not listen."""
    known = error.rank is not None
    culprit = f"rank {error.rank} (host {error.host}, pid {error.pid})" if known else ""
    report = FailureReport(os.getpid(), rank, type(error).__name__, culprit)
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as launcher:
        launcher.settimeout(_SECONDS)
        launcher.connect("\0" + collector)
        launcher.sendall(json.dumps(asdict(report)).encode())


def parse(data: bytes) -> FailureReport:
    """Return the report in `data`, which another process wrote. Raises ValueError if it is malformed."""
    try:
        fields = json.loads(data)
        report = FailureReport(**fields)
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"not a report of a failure: {error}") from None
    for name, kind in FailureReport.__annotations__.items():
        if type(getattr(report, name)).__name__ != kind:
            raise ValueError(f"not a report of a failure: its {name} should be of type {kind}")
    return report
