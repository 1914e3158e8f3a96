"""The messages that workers send to the rounds of an elastic job, and the actions that the rounds ask for."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.horovod.exceptions import HostUpdateResult


@dataclass(frozen=True, slots=True)
class Asked:
    """A worker asks for a round after `round`.

    behind: its state may be older than that of the others. problem: why it could not connect to the others in `round`;
    "" if it could.
    """

    worker: int
    round: int
    behind: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Synced:
    """A worker has received the job's state."""

    worker: int


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's position in a round. after: the number of the round it was in before, 0 if there was none."""

    worker: int
    after: int
    rank: int
    local_rank: int
    local_size: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a worker on a host. place: its index among the workers there."""

    worker: int
    host: str
    place: int


@dataclass(frozen=True, slots=True)
class End:
    """End a worker, because it is not needed or is late."""

    worker: int
    why: str


@dataclass(frozen=True, slots=True)
class Form:
    """A round begins. sync: its ranks do not all have the same state."""

    number: int
    seats: tuple[Seat, ...]
    sync: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """Notify the ranks of a round that the hosts changed."""

    round: int
    change: HostUpdateResult


@dataclass(frozen=True, slots=True)
class Broken:
    """The ranks of this round can no longer connect, because one of them ended."""

    round: int
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Report that a round has been waiting for some time.

    what: what it waits for. seconds: the longest time left to wait.
    """

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """End the job, because it cannot continue."""

    why: str


Action = Start | End | Form | Tell | Broken | Wait | Stop
