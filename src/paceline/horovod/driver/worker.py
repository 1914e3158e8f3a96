"""A worker's side of an elastic job: it asks the driver for a round and learns its rank there."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.errors import NOBODY, ConfigurationError, RendezvousError
from paceline.horovod.driver.store import (
    MAX_MESSAGE_BYTES,
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
from paceline.rendezvous.store_client import StoreClient, StoreRequests
from paceline.settings.settings import Settings

_POLL_INTERVAL = 0.02
"""Seconds between two checks for the next round."""
_BROKEN_CHECK_INTERVAL = 0.1
"""Seconds between two checks whether the round can still form."""
_OWNER = "the elastic driver"


@dataclass(frozen=True, slots=True)
class Round:
    """A worker's position in one round. sync: the round's ranks do not all have the same state."""

    number: int
    rank: int
    size: int
    local_rank: int
    local_size: int
    sync: bool

    def environment(self) -> dict[str, str]:
        """Return the position as the variables that torchrun sets."""
        return {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_size),
        }


class RoundStore:
    """The store through which the ranks of one round connect: the driver's store, with a prefix before each key.

    Its methods raise RendezvousError once the driver knows that some ranks of the round cannot come. The driver closes
    the store.
    """

    def __init__(self, client: StoreClient, number: int) -> None:
        self._client = client
        self._requests: StoreClient | StoreRequests = client
        self.place = client.place
        self._prefix, self._broken = round_prefix(number), broken_key(number)
        self._looked = time.monotonic()

    def within(self, deadline: Deadline) -> RoundStore:
        """Return this store; its requests end at `deadline` from now on."""
        self._requests = self._client.within(deadline)
        return self

    def set(self, key: str, value: bytes) -> None:
        """Set a key of this round."""
        self._requests.set(self._prefix + key, value)

    def get(self, key: str) -> bytes:
        """Return the value of a key of this round; waits until it is set."""
        return self._requests.get(self._prefix + key)

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all these keys of this round are set.

        Raises RendezvousError if a rank of this round ended meanwhile.
        """
        if self._requests.check([self._prefix + key for key in keys]):
            return True
        if time.monotonic() - self._looked > _BROKEN_CHECK_INTERVAL:
            self._looked = time.monotonic()
            if self._requests.check([self._broken]):
                why = decode(self._requests.get(self._broken), MAX_MESSAGE_BYTES, "why a round is over").get("why")
                raise RendezvousError(f"a rank ended while the ranks met: {why}")
        return False

    def close(self, deadline: Deadline | None = None) -> None:
        """Do nothing: the connection belongs to the worker."""


class Worker:
    """This process as one of the driver's workers.

    timeout: seconds to connect to the driver.

    Raises RendezvousError if the driver cannot be reached and ConfigurationError if settings of the launcher are
    missing.
    """

    def __init__(self, settings: Settings, timeout: float) -> None:
        if settings.elastic is None or settings.secret is None:
            raise ConfigurationError("PACELINE_ELASTIC and PACELINE_SECRET must both be set, as the launcher sets them")
        seat = settings.elastic
        self._number = seat.worker
        driver = [TcpAddress(seat.host, seat.port)]
        who = (settings.secret, seat.worker, WORKERS)
        self._client = StoreClient(driver, *who, Deadline(timeout), owner=_OWNER, culprit=NOBODY)
        self.round: Round | None = None
        self.behind = False
        """True if this process's state may be older than the others'."""

    def next_round(self, problem: str = "") -> Round:
        """Ask for a round and wait for it without a time limit; the driver limits the wait.

        problem: why the ranks could not connect in the previous round.

        Raises RendezvousError if the driver is gone.
        """
        before = self.round.number if self.round is not None else 0
        request = {"round": before, "behind": self.behind, "problem": problem[:500]}
        self._client.set(ask_key(self._number), json.dumps(request).encode())
        key = seat_key(self._number, before)
        while not self._client.check([key]):
            time.sleep(_POLL_INTERVAL)
        self.round = _round(decode(self._client.get(key), MAX_MESSAGE_BYTES, "a place in a round"))
        return self.round

    def synced(self) -> None:
        """Report that this process has the state of the job."""
        self.behind = False
        self._client.set(synced_key(self._number), b"")

    def store(self) -> RoundStore:
        """Return the store through which the ranks of the present round connect."""
        assert self.round is not None
        return RoundStore(self._client, self.round.number)

    def change(self) -> int:
        """Return how the hosts changed since this round began: 0, or flags of HostUpdateResult."""
        if self.round is None or not self._client.check([change_key(self.round.number)]):
            return 0
        value = self._client.get(change_key(self.round.number))
        change = decode(value, MAX_MESSAGE_BYTES, "a change of the hosts").get("change")
        return change if change in (1, 2, 3) else 0


def _round(value: dict[str, object]) -> Round:
    number, rank, size, local_rank, local_size = (
        _number(value.get(name)) for name in ("round", "rank", "size", "local_rank", "local_size")
    )
    return Round(number, rank, size, local_rank, local_size, value.get("sync") is True)


def _number(value: object) -> int:
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    raise RendezvousError("the position that the driver sent is malformed")
