"""Gathers every rank's figures on the first rank, even if some ranks are gone."""

from __future__ import annotations

import hashlib
import logging
import struct
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from paceline._engine import ASYNC, CollectiveCall, Group
from paceline.calibration.report import GATHER_SECONDS
from paceline.errors import CommunicationError
from paceline.observe.figures import MAX_BYTES, Figures, decode, encode

_LENGTH = struct.Struct("!Q")

log = logging.getLogger("paceline")

Pair = Callable[[tuple[int, int], int], Group]
"""`pair(ranks, channel)` makes a group of these two ranks of the job, as `Runtime.subgroup` does."""


class Gathering:
    """A group for the first rank and each of the others, so that a rank that is gone does not block the rest.

    It is made on every rank when the job begins. job: the channel of the group of all ranks, from which the channels of
    the pairs are derived without communication.
    """

    def __init__(self, pair: Pair, job: int, rank: int, size: int) -> None:
        self._rank = rank
        others = range(1, size) if rank == 0 else [rank] if size > 1 else []
        self._groups = {other: pair((0, other), _channel(job, other)) for other in others}

    def send(self, figures: Figures) -> None:
        """Send the figures to the first rank; called on every other rank. An error is logged and not raised."""
        (group,) = self._groups.values()
        deadline = time.monotonic() + GATHER_SECONDS
        data = encode(figures)
        try:
            for part in (_LENGTH.pack(len(data)), data):
                _move("send", group, np.frombuffer(part, np.uint8), 0, deadline)
        except CommunicationError as error:
            log.warning("the report will lack rank %d: %s", self._rank, error)

    def receive(self) -> tuple[list[Figures], dict[int, str]]:
        """Return the other ranks' figures, and the reason for each rank without figures; called on the first rank."""
        deadline = time.monotonic() + GATHER_SECONDS
        found, missing = [], {}
        for other, group in self._groups.items():
            try:
                found.append(_received(group, deadline))
            except (CommunicationError, ValueError) as error:
                missing[other] = str(error)
        return found, missing


def _received(group: Group, deadline: float) -> Figures:
    head = np.empty(_LENGTH.size, np.uint8)
    _move("recv", group, head, 1, deadline)
    (length,) = _LENGTH.unpack(head.tobytes())
    if not 0 < length <= MAX_BYTES:
        raise ValueError(f"it offered {length} bytes, which is not a valid size of figures")
    data = np.empty(length, np.uint8)
    _move("recv", group, data, 1, deadline)
    return decode(data.tobytes())


def _move(kind: str, group: Group, data: NDArray[np.uint8], peer: int, deadline: float) -> None:
    operation = group.start(CollectiveCall(kind, target=data.ctypes.data, count=data.size, peer=peer), ASYNC)
    if operation is not None:
        operation.wait(max(0.001, deadline - time.monotonic()))


def _channel(job: int, other: int) -> int:
    digest = hashlib.sha256(f"paceline report {job} {other}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
