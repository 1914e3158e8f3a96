"""The recent work of a rank, call by call, and the properties of its machine: enough to simulate the job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from paceline.observe.trace.clocks import MEETINGS, Meeting


class Exchange(NamedTuple):
    """A collective that is over, on one rank. Times are CLOCK_REALTIME in ns; bytes are those of the whole buffer.

    channel, sequence: the group and the collective's number in it, the same on all ranks.
    """

    channel: int
    sequence: int
    collective: str
    bytes: int
    begin_ns: int
    end_ns: int


class NamedExchange(NamedTuple):
    """A named request that is over, on one rank. Times are CLOCK_REALTIME in ns.

    channel, batch, name: identify it on all ranks. issued_ns: when the ranks had agreed to carry it out.
    """

    channel: int
    batch: int
    name: str
    collective: str
    bytes: int
    submitted_ns: int
    issued_ns: int
    done_ns: int


@dataclass(frozen=True)
class Profile:
    """The recent work of a rank, oldest first, and its machine.

    steps_ns: when its optimizers stepped, if a framework tells that (CLOCK_REALTIME in ns). fusion_bytes,
    cycle_seconds, waits: the options of its coordinator, if it had one. codec: how PACELINE_COMPRESS encodes
    data between machines. cpus: those that the process may use. copy_rate: bytes per second that it copies while the
    other ranks of its machine do, too. late_ns: by how much sleeps were too long.
    """

    exchanges: tuple[Exchange, ...] = ()
    requests: tuple[NamedExchange, ...] = ()
    steps_ns: tuple[int, ...] = ()
    fusion_bytes: int = 0
    cycle_seconds: float = 0.0
    waits: str = ""
    codec: str = "none"
    cpus: float = 0.0
    copy_rate: float = 0.0
    late_ns: tuple[int, ...] = ()

    @property
    def meetings(self) -> list[Meeting]:
        """The exchanges by which ranks and clocks are compared."""
        return [
            Meeting(e.channel, e.sequence, e.begin_ns, e.end_ns, bytes=e.bytes)
            for e in self.exchanges
            if e.collective in MEETINGS
        ]
