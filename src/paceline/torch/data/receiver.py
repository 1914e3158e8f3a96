"""A rank's side: batches that another process of the machine, or a thread of this one, has read."""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.errors import Culprit
from paceline.torch.data import layout
from paceline.torch.data.errors import ReadingFailed, late, lost
from paceline.torch.data.messages import Endpoint, Gone
from paceline.torch.data.shares import Cut
from paceline.torch.data.slots import MAX_SLOTS, Slots


class _Lent(weakref.ref[NDArray[np.uint8]]):
    """The memory of a batch that this rank was given. slot: where it is. nbytes: its size."""

    slot: int
    nbytes: int


@dataclass(frozen=True)
class Received:
    """A rank's part of a batch. content: tensors over the slot. ns: nanoseconds that it took to make the batch."""

    content: Any
    cut: Cut
    ns: int


class Receiver:
    """Receives batches. reader: the process that reads. timeout: seconds for a batch."""

    def __init__(self, endpoint: Endpoint, slots: Slots, reader: Culprit, timeout: float) -> None:
        self._endpoint, self._slots, self.reader, self._timeout = endpoint, slots, reader, timeout
        self._ended = 0  # the last epoch whose end was seen
        self._lent: dict[int, _Lent] = {}  # by slot
        # Tensors are dropped anywhere, and Python loses a Ctrl-C that comes while a finalizer in Python runs: what is
        # called then is a method of a deque, and the next call says what was dropped.
        self._dropped = deque[_Lent]()

    def next(self, epoch: int) -> Received | None:
        """Return the next batch of this epoch, None after the last, any number of times.

        Raises ReadingFailed if it could not be read, PeerLost if the process that reads is gone, and Timeout.
        """
        if self._ended == epoch:
            return None
        while self._dropped:
            self._give_back(self._dropped.popleft())
        while True:
            message = self._receive()
            if "slot" in message and message.get("epoch") != epoch:  # of an epoch that this rank left early
                self._say({"release": message["slot"], "nbytes": 0})
            elif message.get("epoch") == epoch:
                break
        if "stop" not in message:
            return self._taken(epoch, message)
        if message["stop"] is None:
            self._ended = epoch
            return None
        raise ReadingFailed(self.reader, str(message["stop"]))

    def leave(self, epoch: int) -> None:
        """Take no more batches of this epoch."""
        self._say({"leave": epoch})

    def close(self) -> None:
        """Leave for good; tensors stay usable."""
        self._endpoint.close()
        self._slots.close()

    def _receive(self) -> dict[str, Any]:
        try:
            return self._endpoint.receive(self._timeout)[0]
        except TimeoutError:
            raise late(self.reader, self._timeout) from None
        except (Gone, ValueError) as error:
            raise lost(self.reader, f"is lost: {error}") from None

    def _taken(self, epoch: int, message: dict[str, Any]) -> Received:
        try:
            planned = layout.checked(message["rows"], message["nbytes"], message["tree"])
            slot, number, ns = message["slot"], message["batch"], message["ns"]
            cut = Cut(message["begin"], message["end"], message["samples"], message["total"])
            if not (type(slot) is int and 0 <= slot < MAX_SLOTS and 0 <= cut.begin <= cut.end <= planned.rows):
                raise ValueError(f"slot {slot}, samples {cut.begin} to {cut.end} of {planned.rows}")
        except (KeyError, TypeError, ValueError) as error:
            raise lost(self.reader, f"sent no batch: {error}") from None
        self._say({"take": number, "epoch": epoch})
        memory = self._slots.array(slot, max(1, planned.nbytes))
        content = layout.view(planned, memory, cut.begin, cut.end)
        lent = self._lent[slot] = _Lent(memory, self._dropped.append)
        lent.slot, lent.nbytes = slot, planned.nbytes
        return Received(content, cut, ns)

    def _give_back(self, lent: _Lent) -> None:
        self._lent.pop(lent.slot, None)
        self._say({"release": lent.slot, "nbytes": lent.nbytes})

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._endpoint.send(message)
        except Gone:
            return  # the next batch that is asked for says so
