"""A worker's side of an elastic job: it asks the driver for a round, and learns who it is in it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import RendezvousError
from paceline.horovod.driver.store import (
    LONGEST,
    WORKERS,
    ask_key,
    broken_key,
    change_key,
    round_prefix,
    seat_key,
    synced_key,
)
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.dial import TcpAddress
from paceline.rendezvous.member import decode
from paceline.rendezvous.store import StoreClient
from paceline.settings.settings import ConfigurationError, Settings

_PAUSE = 0.02
_LOOK = 0.1
_OWNER = "the elastic driver"


@dataclass(frozen=True, slots=True)
class Round:
    """Who this worker is in one round. sync: its ranks do not all have the same state."""

    number: int
    rank: int
    size: int
    local_rank: int
    local_size: int
    sync: bool

    def environment(self) -> dict[str, str]:
        """As torchrun would say it."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
        }


class RoundStore:
    """What the ranks of one round meet through: the driver's store, under keys of their own.

    Raises RendezvousError once the driver knows that they cannot all come. It is the driver's to close.
    """

    def __init__(self, client: StoreClient, number: int) -> None:
        self._client = client
        self.place = client.place
        self._prefix, self._broken = round_prefix(number), broken_key(number)
        self._looked = time.monotonic()

    def set(self, key: str, value: bytes) -> None:
        self._client.set(self._prefix + key, value)

    def get(self, key: str) -> bytes:
        return self._client.get(self._prefix + key)

    def check(self, keys: Sequence[str]) -> bool:
        if self._client.check([self._prefix + key for key in keys]):
            return True
        if time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            if self._client.check([self._broken]):
                why = decode(self._client.get(self._broken), LONGEST, "why a round is over").get("why")
                raise RendezvousError(f"a rank ended while the ranks met: {why}")
        return False

    def close(self, deadline: Deadline | None = None) -> None:
        """Nothing to close."""


class Worker:
    """This process as one of the driver's workers. Raises RendezvousError if the driver cannot be reached."""

    def __init__(self, settings: Settings, timeout: float) -> None:
        if settings.elastic is None or settings.secret is None:
            raise ConfigurationError("PACELINE_ELASTIC comes with PACELINE_SECRET, from the launcher")
        seat = settings.elastic
        self._number = seat.worker
        driver = [TcpAddress(seat.host, seat.port)]
        self._client = StoreClient(driver, settings.secret, seat.worker, WORKERS, Deadline(timeout), owner=_OWNER)
        self.round: Round | None = None
        self.behind = False
        """Whether this process's state may be older than the others'."""

    def next_round(self, problem: str = "") -> Round:
        """Ask for a round and wait for it; how long that may take is the driver's affair.

        problem: why the ranks could not meet in the one before. Raises RendezvousError if the driver is gone.
        """
        before = self.round.number if self.round is not None else 0
        said = {"round": before, "behind": self.behind, "problem": problem[:500]}
        self._client.set(ask_key(self._number), json.dumps(said).encode())
        key = seat_key(self._number, before)
        while not self._client.check([key]):
            time.sleep(_PAUSE)
        self.round = _round(decode(self._client.get(key), LONGEST, "a place in a round"))
        return self.round

    def synced(self) -> None:
        """This process has the state of the job now."""
        self.behind = False
        self._client.set(synced_key(self._number), b"")

    def store(self) -> RoundStore:
        """What the ranks of the present round meet through."""
        assert self.round is not None
        return RoundStore(self._client, self.round.number)

    def change(self) -> int:
        """What the driver says of the hosts since this round began: 0, or flags of HostUpdateResult."""
        if self.round is None or not self._client.check([change_key(self.round.number)]):
            return 0
        change = decode(self._client.get(change_key(self.round.number)), LONGEST, "a change of the hosts").get("change")
        return change if change in (1, 2, 3) else 0


def _round(value: dict[str, object]) -> Round:
    number, rank, size, local_rank, local_size = (
        _number(value.get(name)) for name in ("round", "rank", "size", "local_rank", "local_size")
    )
    return Round(number, rank, size, local_rank, local_size, value.get("sync") is True)


def _number(value: object) -> int:
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    raise RendezvousError("the place that the driver gives is malformed")
