"""A rank's side: batches that another process of the machine, or a thread of this one, has read."""

from __future__ import annotations

import os
import weakref
from dataclasses import dataclass
from typing import Any

from paceline.errors import Culprit
from paceline.torch.data import layout
from paceline.torch.data.errors import ReadingFailed, late, lost
from paceline.torch.data.messages import Endpoint, Gone
from paceline.torch.data.shares import Cut
from paceline.torch.data.slots import MAX_SLOTS, Slots


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
        self._pid = os.getpid()

    def next(self, epoch: int) -> Received | None:
        """Return the next batch of this epoch, None after the last, any number of times.

        Raises ReadingFailed if it could not be read, PeerLost if the process that reads is gone, and Timeout.
        """
        if self._ended == epoch:
            return None
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
        weakref.finalize(memory, _release, weakref.ref(self), slot, planned.nbytes).atexit = False
        return Received(content, cut, ns)

    def _say(self, message: dict[str, Any]) -> None:
        try:
            self._endpoint.send(message)
        except Gone:
            return  # the next batch that is asked for says so


def _release(receiver: weakref.ref[Receiver], slot: int, nbytes: int) -> None:
    one = receiver()
    if one is not None and one._pid == os.getpid():
        one._say({"release": slot, "nbytes": nbytes})
