"""The processes of an elastic job, which are started, watched and ended as `rounds` decides."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from queue import Empty
from typing import Protocol

from paceline.horovod.driver.messages import Action, Broken, End, Form, Start, Stop, Tell, Wait
from paceline.horovod.driver.rounds import Rounds
from paceline.horovod.driver.store import DriverStore, broken_key, change_key, round_prefix, seat_key, seats_prefix
from paceline.horovod.hosts import Slots
from paceline.launch import tree
from paceline.launch.job import Command, Ended
from paceline.launch.prefixed_output import PrefixedOutputJob
from paceline.launch.run import say
from paceline.launch.stderr import Collector

_LEAVING_SECONDS = 2.0
"""Seconds that the workers have to end after SIGTERM before they are killed."""


class Source(Protocol):
    """Provides the hosts that can be used."""

    @property
    def latest(self) -> Slots:
        """The hosts that can be used now, and their slots."""
        ...


class ElasticJob(PrefixedOutputJob):
    """A job whose processes come and go; `poll` advances it.

    It ends when one rank has ended successfully and all others have ended too, or when `rounds` decides that it cannot
    continue.
    """

    def __init__(
        self,
        rounds: Rounds,
        source: Source,
        store: DriverStore,
        command: Callable[[int, str, int], Command],
        mark: str,
        collector: Collector,
        copies: Path | None = None,
    ) -> None:
        """Prepare the job without starting anything.

        command: returns the command of a worker, from its number, its host and its index among the workers there.
        copies: the folder for copies of the workers' output, by worker number; see `PrefixedOutputJob`.
        """
        super().__init__([], mark, collector, copies)
        self._rounds, self._source, self._store = rounds, source, store
        self._command = command
        self._alive: dict[int, int] = {}  # index in `self.processes` of each live worker
        self._ranks: dict[int, int] = {}
        self._closing = False

    def start(self) -> None:
        """Start the first workers, if there are hosts for them."""
        try:
            self.poll()
        except BaseException:
            self.terminate(grace=0)
            raise

    def poll(self) -> int | None:
        """Handle what has happened since the last call, and act on it.

        Returns the exit code once the job has ended, else None.
        """
        now = time.monotonic()
        self._see_ends(now)
        if not self._closing:
            self._receive(now)
            self._rounds.set_hosts(self._source.latest)
            for action in self._rounds.step(now):
                self._act(action)
        if self._rounds.stopped and not self._closing:
            self.terminate()
            self._see_ends(now)
        over = self._closing or self._rounds.stopped or self._rounds.finished
        if self._alive or not over:
            return None
        return self.failed.code if self.failed else 1 if self._rounds.stopped else 0

    def send_signal(self, number: int) -> None:
        """Send the signal as `Job.send_signal` does; no further workers are started."""
        self._closing = True
        super().send_signal(number)

    def terminate(self, grace: float = _LEAVING_SECONDS) -> list[int]:
        """End the job as `Job.terminate` does; no further workers are started.

        grace: seconds until the workers are killed.
        """
        self._closing = True
        return super().terminate(grace)

    def mark_of(self, number: int) -> str:
        """Return a separate mark for each worker, because one worker can end without the others."""
        return f"{self.mark}:{number}"

    def _see_ends(self, now: float) -> None:
        for worker, index in list(self._alive.items()):
            code = self.processes[index].poll()
            if code is None:
                continue
            del self._alive[worker]
            ended = Ended(self._name(worker), self.processes[index].pid, code if code >= 0 else 128 - code)
            if code and not self._closing:
                if worker in self._ranks or not self._ranks:  # the job does without a worker that never joined
                    self.failures.append(ended)
                say(f"elastic: {ended}")
            tree.end(self.mark_of(worker), [], 0)  # ends processes that the worker started and left behind
            self._rounds.ended(worker, str(ended) if code else "", now)

    def _receive(self, now: float) -> None:
        while True:
            try:
                message = self._store.inbox.get_nowait()
            except Empty:
                return
            self._rounds.receive(message, now)

    def _act(self, action: Action) -> None:
        if isinstance(action, Start):
            self._start(action)
        elif isinstance(action, End):
            say(f"elastic: {self._name(action.worker)} is ended: {action.why}")
            self._end(action.worker)
        elif isinstance(action, Form):
            self._form(action)
        elif isinstance(action, Tell):
            self._store.write(change_key(action.round), {"change": int(action.change)})
        elif isinstance(action, Broken):
            self._store.write(broken_key(action.round), {"why": action.why[:1000]})
        elif isinstance(action, Wait):
            say(f"elastic: waits for {action.what}; {math.ceil(action.seconds)} s more at most")
        elif isinstance(action, Stop):
            say(f"elastic: the job ends: {action.why}")

    def _start(self, action: Start) -> None:
        command = self._command(action.worker, action.host, action.place)
        self._alive[action.worker] = len(self.processes)
        self._commands.append(command)
        self.processes.append(self._spawn(action.worker, command))

    def _end(self, worker: int) -> None:
        process = self.processes[self._alive.pop(worker)]
        tree.end(self.mark_of(worker), [process.pid], 0)
        process.wait()
        if process.stdin is not None:
            process.stdin.close()

    def _form(self, form: Form) -> None:
        self.failures.clear()  # the job continues without these workers
        for seat in form.seats:
            self._ranks[seat.worker] = seat.rank
            self.set_rank(seat.worker, seat.rank)
            place = {"rank": seat.rank, "size": len(form.seats), "round": form.number, "sync": form.sync}
            local = {"local_rank": seat.local_rank, "local_size": seat.local_size}
            self._store.drop(seats_prefix(seat.worker))
            self._store.write(seat_key(seat.worker, seat.after), {**place, **local})
        self._store.drop(round_prefix(form.number - 1))
        if form.number > 1:
            say(f"elastic: round {form.number} with {len(form.seats)} ranks")

    def _name(self, worker: int) -> str:
        return f"rank {self._ranks[worker]}" if worker in self._ranks else f"new worker {worker}"
