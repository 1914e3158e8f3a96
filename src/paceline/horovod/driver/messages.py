"""What the rounds of an elastic job hear of its workers, and what they say is to be done."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.horovod.exceptions import HostUpdateResult


@dataclass(frozen=True, slots=True)
class Asked:
    """A worker wants a round after `round`. behind: its state may be older than that of the others.

    problem: why it could not meet the others in that round, or empty.
    """

    worker: int
    round: int
    behind: bool = False
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Synced:
    """A worker has the job's state."""

    worker: int


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's place in a round. after: the round that it was in before, 0 for none."""

    worker: int
    after: int
    rank: int
    local_rank: int
    local_size: int


@dataclass(frozen=True, slots=True)
class Start:
    """Start a worker on a host, as the one with this place among those there."""

    worker: int
    host: str
    place: int


@dataclass(frozen=True, slots=True)
class End:
    """End a worker: it is not needed, or it is late."""

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
    """Let the ranks of the round know that the hosts changed."""

    round: int
    change: HostUpdateResult


@dataclass(frozen=True, slots=True)
class Broken:
    """The ranks of this round cannot meet any more, because one of them ended."""

    round: int
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """A round has been waited for so long that it should be said. what: needed for it. seconds: left at most."""

    what: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Stop:
    """The job cannot go on."""

    why: str


Action = Start | End | Form | Tell | Broken | Wait | Stop
