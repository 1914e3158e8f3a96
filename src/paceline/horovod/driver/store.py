"""What the driver and its workers tell each other, as keys of one store; and who serves it.

ask/WORKER        worker: I want a round after this one
seat/WORKER/ROUND driver: your place in the round after that one
ROUND/change      driver: the hosts changed
ROUND/broken      driver: this round's ranks cannot meet any more
ROUND/...         ranks of that round, while they meet
"""

from __future__ import annotations

import json
import queue
import socket
from collections.abc import Sequence
from typing import Any

from paceline.errors import RendezvousError
from paceline.horovod.driver.messages import Asked, Synced
from paceline.rendezvous.member import decode
from paceline.rendezvous.store import OK, WRONG
from paceline.rendezvous.store_server import SharedStore

LONGEST = 4096
WORKERS = 0
"""In place of the size of a job, which has none for life: a worker is who calls."""


def ask_key(worker: int) -> str:
    return f"ask/{worker}"


def synced_key(worker: int) -> str:
    return f"synced/{worker}"


def seats_prefix(worker: int) -> str:
    return f"seat/{worker}/"


def seat_key(worker: int, after: int) -> str:
    return f"{seats_prefix(worker)}{after}"


def round_prefix(round_: int) -> str:
    return f"{round_}/"


def change_key(round_: int) -> str:
    return f"{round_}/change"


def broken_key(round_: int) -> str:
    return f"{round_}/broken"


class Board(SharedStore):
    """The driver's store. `said` holds what workers said to it, in that order."""

    def __init__(self, doors: Sequence[socket.socket], key: bytes) -> None:
        self.said: queue.SimpleQueue[Asked | Synced] = queue.SimpleQueue()
        super().__init__(doors, key)

    def admit(self, number: int, size: int) -> tuple[int, str]:
        """Every worker, as often as it comes."""
        if size != WORKERS:
            return WRONG, "an elastic job's driver is here, which no rank of another job needs"
        return OK, ""

    def set(self, key: str, value: bytes) -> None:
        """As any store; what is said to the driver is noted. Raises RendezvousError for what cannot be meant."""
        kind, _, worker = key.partition("/")
        if kind == "ask":
            said = decode(value, LONGEST, "what a worker asks")
            problem, behind = said.get("problem"), said.get("behind")
            if not isinstance(problem, str) or not isinstance(behind, bool):
                raise RendezvousError("what a worker asks is malformed")
            self.said.put(Asked(_number(worker), _number(said.get("round")), behind, problem))
        elif kind == "synced":
            self.said.put(Synced(_number(worker)))
        else:
            super().set(key, value)

    def write(self, key: str, value: dict[str, Any]) -> None:
        """Tell the workers."""
        super().set(key, json.dumps(value).encode())


def _number(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    if type(value) is int and 0 <= value < 1 << 31:
        return value
    raise RendezvousError("what a worker asks is malformed")
