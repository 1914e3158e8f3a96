"""The thread that hands a machine's batches to its ranks, in the process of one of them."""

from __future__ import annotations

import os
import selectors
import socket
import threading
import traceback
from collections.abc import Generator, Mapping
from contextlib import suppress
from typing import Any

from paceline.calibration.torch import MOST_AHEAD
from paceline.cpu import pinning
from paceline.process import at_exit
from paceline.torch.data.ahead import batches_ahead
from paceline.torch.data.messages import Endpoint, Gone
from paceline.torch.data.pool import Pool
from paceline.torch.data.slots import Slots
from paceline.torch.data.source import Source, Written

_MAX_REASON = 32768
"""Characters of a traceback that ranks are sent."""
_JOIN_SECONDS = 2.0
"""Seconds that the end of the process waits for the thread, which may be inside the user's dataset."""


class _Rank:
    """A rank that gets batches: how many of this epoch it has taken, and whether it wants more."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.taken = 0
        self.wants = False


class Reader:
    """Reads for the ranks of a machine, one epoch at a time. `begin` and `close` are for the thread that owns it.

    A rank that falls behind holds reading up once the others have as many batches ready as memory is for. One that
    leaves the epoch, or ends, is not waited for.
    """

    def __init__(self, slots: Slots, pool: Pool, ranks: Mapping[int, Endpoint], cpus: tuple[int, ...]) -> None:
        """ranks: where each rank of this machine is reached. cpus: those that the thread may use, empty for all."""
        self._slots, self._pool, self._cpus = slots, pool, cpus
        self._ranks = {rank: _Rank(endpoint) for rank, endpoint in ranks.items()}
        self._selector = selectors.DefaultSelector()
        for rank, one in self._ranks.items():
            self._selector.register(one.endpoint, selectors.EVENT_READ, rank)
        self._awake, self._alarm = socket.socketpair()
        self._selector.register(self._awake, selectors.EVENT_READ, None)
        self._thread: threading.Thread | None = None
        self._epoch = 0
        self._stopping = False
        self._limit = 1
        self._pid = os.getpid()
        self._let_go = at_exit.register(self.close)

    def begin(self, epoch: int, source: Source) -> None:
        """Read the batches of `source` for an epoch that every rank has begun. An error goes to the ranks."""
        self._end_epoch(None)
        self._epoch = epoch
        self._listen(0)
        self._pool.reclaim()
        for one in self._ranks.values():
            one.taken, one.wants = 0, True
        try:
            written = source.begin()
        except BaseException as error:
            self._say({"stop": traceback.format_exc()[-_MAX_REASON:]})
            if not isinstance(error, (Exception, SystemExit)):
                raise  # Ctrl-C, which is this process's own
            return
        self._thread = threading.Thread(target=self._run, args=(written,), name="paceline-batches")
        self._thread.daemon = True
        self._thread.start()

    def fail(self, reason: str) -> None:
        """Tell the ranks at once that the epoch failed, while the thread waits for an input worker that died."""
        self._stopping = True
        self._say({"stop": reason[-_MAX_REASON:]})

    def close(self) -> None:
        """Tell the ranks that no more batches come, and stop. May be called again."""
        if self._pid != os.getpid():
            return
        self._let_go()
        self._end_epoch(_JOIN_SECONDS)
        if self._thread is None:
            self._selector.close()
            for one in self._ranks.values():
                one.endpoint.close()
            self._alarm.close()
            self._awake.close()

    def _end_epoch(self, timeout: float | None) -> None:
        if self._thread is None:
            return
        self._stopping = True
        with suppress(OSError):
            self._alarm.send(b".")
        self._thread.join(timeout)
        if self._thread.is_alive():
            for one in self._ranks.values():  # it is inside the user's dataset: the ranks need not wait for that
                one.endpoint.shut_down()
            return
        self._thread, self._stopping = None, False

    def _run(self, written: Generator[Written]) -> None:
        pinning.move(self._cpus)
        reason: str | None = None
        try:
            handed = 0
            while self._wanted(handed) and (one := next(written, None)) is not None:
                if not handed:
                    self._limit = batches_ahead(one.layout.nbytes)
                self._hand_over(handed, one)
                handed += 1
        except BaseException:  # whatever a dataset raises ends its thread, and nobody else would hear of it
            reason = traceback.format_exc()[-_MAX_REASON:]
        finally:
            written.close()  # ends the input workers, unless they are persistent
        if not self._stopping:
            self._say({"stop": reason})

    def _wanted(self, handed: int) -> bool:
        """Wait until some rank has too few batches ready. Returns whether there is such a rank."""
        self._listen(0)
        while not self._stopping:
            taken = [one.taken for one in self._ranks.values() if one.wants]
            if not taken:
                return False
            if handed - min(taken) < self._limit:
                return True
            self._listen(None)
        return False

    def _hand_over(self, number: int, batch: Written) -> None:
        wanting = [rank for rank, one in self._ranks.items() if one.wants]
        self._pool.lend(batch.slot, wanting)
        described = {
            "batch": number,
            "slot": batch.slot,
            "rows": batch.layout.rows,
            "nbytes": batch.layout.nbytes,
            "tree": batch.layout.tree,
            "ns": batch.ns,
        }
        for rank in wanting:
            self._send(rank, {**described, **vars(batch.cuts[rank])})

    def _say(self, message: dict[str, Any]) -> None:
        for rank, one in self._ranks.items():
            if one.wants:
                self._send(rank, message)

    def _send(self, rank: int, message: dict[str, Any]) -> None:
        try:
            self._ranks[rank].endpoint.send({"epoch": self._epoch, **message})
        except Gone:
            self._lose(rank)

    def _listen(self, timeout: float | None) -> None:
        """Take in what the ranks say; wait for something first, unless timeout is 0."""
        while ready := self._selector.select(timeout):
            timeout = 0
            for key, _ in ready:
                if key.data is None:
                    self._awake.recv(4096)
                else:
                    self._hear(key.data)

    def _hear(self, rank: int) -> None:
        one = self._ranks[rank]
        try:
            message, _ = one.endpoint.receive(0)
        except TimeoutError:
            return
        except (Gone, ValueError):
            self._lose(rank)
            return
        match message:
            case {"release": int(slot), "nbytes": int(nbytes)}:
                if self._pool.give_back(slot, rank) and slot > self._pool.lent + 2 * MOST_AHEAD:
                    self._slots.clear(slot, nbytes)
            case {"take": int(number), "epoch": self._epoch}:
                one.taken = number + 1
            case {"leave": self._epoch}:
                one.wants = False

    def _lose(self, rank: int) -> None:
        """A rank is gone: the others have their batches as before, and learn of it from whatever they do together."""
        one = self._ranks[rank]
        one.wants = False
        with suppress(KeyError, ValueError):
            self._selector.unregister(one.endpoint)
        self._pool.forget(rank)
