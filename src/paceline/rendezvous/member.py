"""The record that a rank gives the others about itself before any of them connects."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from paceline.errors import Culprit, RendezvousError

LONGEST_RECORD = 16384
"""Bytes that a record can have."""


@dataclass(frozen=True, slots=True)
class Member:
    """One rank of a meeting.

    process: the name of its process in all meetings. ticket: its name in this meeting only; both are 16 random bytes in
    hexadecimal. pid: valid only within the PID namespace `pids`. machine, place: see `Machine`. cpus: its affinity, as
    from `to_mask`. address: where other machines probably reach it, `certain` or as a guess. keyed: whether it has a
    secret of its own, PACELINE_SECRET.
    """

    rank: int
    size: int
    process: str
    ticket: str
    host: str
    pid: int
    pids: int
    uid: int
    machine: str
    place: str
    cpus: str
    address: str
    certain: bool
    keyed: bool
    protocol: int
    version: str
    network: str
    """The digest of the topology in the rank's file, empty without a file; or, after an exclamation mark, what is wrong
    with that file."""
    algorithm: str
    """The all-reduce of PACELINE_ALGORITHM, empty where it is not set."""
    compress: str
    """The codec of PACELINE_COMPRESS."""
    speed: int
    """Bytes per second of the interface at `address`, 0 where they are not known."""

    def __str__(self) -> str:
        return f"rank {self.rank} (host {self.host}, pid {self.pid})"

    @property
    def culprit(self) -> Culprit:
        """This rank, as an error blames it."""
        return Culprit(self.rank, self.host, self.pid)

    @property
    def kernel(self) -> str:
        """The identity of the kernel whose CPUs the rank uses: the place without the network namespace."""
        return self.place.rpartition("-")[0]

    @property
    def affinity(self) -> frozenset[int]:
        """The CPUs that the rank may run on."""
        return from_mask(self.cpus)

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object, which `from_json` reads."""
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_json(cls, value: Any, rank: int) -> Member:
        """Return the member in a JSON object that `rank` wrote, after a check of every field and bound.

        Raises RendezvousError, which names the rank.
        """
        try:
            fields = {name: check(value[name]) for name, check in _CHECKS.items()}
        except (KeyError, TypeError, ValueError) as error:
            raise RendezvousError(
                f"the record of rank {rank} in the store is malformed: {error!r}", Culprit(rank)
            ) from None
        member = cls(**fields)
        if member.rank != rank:
            raise RendezvousError(f"two processes disagree on who is rank {rank}: {member} wrote there")
        return member


def to_mask(cpus: frozenset[int] | tuple[int, ...]) -> str:
    """Return CPU numbers as a hexadecimal mask; numbers from 8192 on are left out."""
    return f"{sum(1 << cpu for cpu in cpus if cpu < 8192):x}"


def from_mask(mask: str) -> frozenset[int]:
    """Return the CPU numbers in a hexadecimal mask. Raises ValueError if it is malformed."""
    number = int(mask, 16)
    return frozenset(cpu for cpu in range(number.bit_length()) if number >> cpu & 1)


def decode(data: bytes, longest: int, what: str) -> dict[str, Any]:
    """Return the JSON object in `data` from the store; `what` names it in errors.

    Raises RendezvousError if it has more than `longest` bytes, or is no JSON object.
    """
    try:
        if len(data) > longest:
            raise ValueError(f"{len(data)} bytes")
        value = json.loads(data)
        if not isinstance(value, dict):
            raise ValueError("not an object")
        return value
    except (ValueError, RecursionError) as error:
        raise RendezvousError(f"{what} in the store is malformed: {error}") from None


def objects(value: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the list of JSON objects that is called `name` in `value`. Raises RendezvousError if it is malformed."""
    found = value.get(name)
    if not isinstance(found, list) or not all(isinstance(item, dict) for item in found):
        raise RendezvousError(f"the list of {name} in the store is malformed")
    return found


def _text(pattern: str, longest: int) -> Any:
    def check(value: Any) -> str:
        if not isinstance(value, str) or len(value) > longest or not re.fullmatch(pattern, value):
            raise ValueError(f"unexpected text {str(value)[:80]!r}")
        return value

    return check


def _count(highest: int) -> Any:
    def check(value: Any) -> int:
        if type(value) is not int or not 0 <= value <= highest:
            raise ValueError(f"unexpected number {str(value)[:80]}")
        return value

    return check


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError(f"unexpected flag {str(value)[:80]}")
    return value


_CHECKS: dict[str, Any] = {
    "rank": _count((1 << 20) - 1),
    "size": _count(1 << 20),
    "process": _text("[0-9a-f]{32}", 32),
    "ticket": _text("[0-9a-f]{32}", 32),
    "host": _text(r"[^\x00-\x1f]+", 255),
    "pid": _count(1 << 32),
    "pids": _count(1 << 63),
    "uid": _count(1 << 32),
    "machine": _text(r"[^\x00-\x1f]+", 255),
    "place": _text(r"[^\x00-\x1f]+", 255),
    "cpus": _text("[0-9a-f]+", 2048),
    "compress": _text("[a-z0-9]*", 64),
    "address": _text("[0-9a-fA-F.:]*", 64),
    "certain": _flag,
    "keyed": _flag,
    "protocol": _count(65535),
    "version": _text(r"[^\x00-\x1f]+", 64),
    "network": _text(r"[0-9a-f]*|![^\x00-\x1f]+", 1000),
    "algorithm": _text("[a-z_]*", 64),
    "speed": _count(10**18),
}
