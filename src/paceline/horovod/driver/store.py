"""The driver's key-value store, and the keys by which the driver and its workers exchange messages.

ask/WORKER        worker: I want a round after this one
synced/WORKER     worker: I have the job's state
seat/WORKER/ROUND driver: your position in the round after that one
ROUND/change      driver: the hosts changed
ROUND/broken      driver: this round's ranks can no longer connect
ROUND/...         the ranks of that round, while they connect
"""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Sequence

from paceline.errors import RendezvousError
from paceline.horovod.driver.messages import Asked, Synced
from paceline.rendezvous.member import decode
from paceline.rendezvous.store import OK, WRONG
from paceline.rendezvous.store_server import SharedStore

MAX_MESSAGE_BYTES = 4096
"""The size in bytes of the longest value that either side accepts."""
WORKERS = 0
"""Stands for the size of the job in the handshake: an elastic job has no fixed size, and its callers are workers."""


def ask_key(worker: int) -> str:
    """Return the key under which a worker asks for a round."""
    return f"ask/{worker}"


def synced_key(worker: int) -> str:
    """Return the key under which a worker reports that it has the job's state."""
    return f"synced/{worker}"


def seats_prefix(worker: int) -> str:
    """Return the prefix of the keys of all positions of a worker."""
    return f"seat/{worker}/"


def seat_key(worker: int, after: int) -> str:
    """Return the key of a worker's position in the round that follows round `after`."""
    return f"{seats_prefix(worker)}{after}"


def round_prefix(round_: int) -> str:
    """Return the prefix of the keys of a round."""
    return f"{round_}/"


def change_key(round_: int) -> str:
    """Return the key under which the driver notifies a round that the hosts changed."""
    return f"{round_}/change"


def broken_key(round_: int) -> str:
    """Return the key under which the driver reports that a round's ranks can no longer connect."""
    return f"{round_}/broken"


class DriverStore(SharedStore):
    """The driver's store. `inbox` holds the messages of the workers in the order of their arrival."""

    def __init__(self, listeners: Sequence[socket.socket], key: bytes) -> None:
        self.inbox: queue.SimpleQueue[Asked | Synced] = queue.SimpleQueue()
        super().__init__(listeners, key)

    def admit(self, number: int, size: int) -> tuple[int, str]:
        """Admit every worker, as often as it connects, and no rank of an ordinary job."""
        if size != WORKERS:
            return WRONG, "this is the driver of an elastic job, and the caller is a rank of another job"
        return OK, ""

    def set(self, key: str, value: bytes) -> None:
        """Set a key as any store does, or put a worker's message into `inbox`.

        Raises RendezvousError for a malformed message.
        """
        kind, _, worker = key.partition("/")
        if kind == "ask":
            fields = decode(value, MAX_MESSAGE_BYTES, "a worker's request for a round")
            problem, behind = fields.get("problem"), fields.get("behind")
            if not isinstance(problem, str) or not isinstance(behind, bool):
                raise RendezvousError("a worker's request for a round is malformed")
            self.inbox.put(Asked(_number(worker), _number(fields.get("round")), behind, problem))
        elif kind == "synced":
            self.inbox.put(Synced(_number(worker)))
        else:
            super().set(key, value)

    def write(self, key: str, value: dict[str, object]) -> None:
        """Set a key to a JSON object, for the workers to read."""
        super().set(key, json.dumps(value).encode())


def _number(value: object) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    raise RendezvousError("a number in a worker's message is malformed")
