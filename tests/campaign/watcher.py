"""What is done to a job from outside: signals that follow others, its store, its launcher and its network."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from network import Network
from trials import FAULTS, Trial
from warm_python import Forked


class Watcher:
    """Does it when it is due. ranks: the folder of the ranks' output."""

    def __init__(
        self, trial: Trial, processes: Sequence[Any], ranks: Path, store: Forked | None, network: Network | None
    ) -> None:
        self._trial, self._processes, self._ranks, self._store = trial, processes, ranks, store
        self._network = network
        self._undone = False
        self._stopped_at: float | None = None
        self._due: float | None = None
        self.acted: float | None = None
        """When it was done, where it is done from outside."""

    def look(self) -> bool:
        """Do what is due. True once nobody has to end any more: who is left was stopped for ever."""
        trial = self._trial
        if trial.expected == "silent" and trial.fault == "stop":
            return self._only_stopped_left()
        if trial.fault in ("pause", "long pause"):
            self._wake_stopped()
        elif trial.fault == "suspended job":
            self._suspend()
        elif FAULTS[trial.fault].place != "victim" and self.acted is None and self._reached():
            self.acted = time.monotonic()
            self._act()
        elif self._network is not None and self.acted is not None and time.monotonic() > self.acted + trial.pause:
            self._heal()
        return False

    def undo(self) -> None:
        """Mend the network."""
        if self._network is not None and self.acted is not None and not self._undone:
            self._undone = True
            self._network.undo(self._trial.fault, int(self._trial.machines[self._trial.victim]))

    def _act(self) -> None:
        fault = self._trial.fault
        if self._store is not None:
            self._store.send_signal(signal.SIGKILL if fault == "store dies" else signal.SIGSTOP)
        elif self._network is not None:
            self._network.do(fault, int(self._trial.machines[self._trial.victim]))
        else:
            self._processes[0].send_signal(signal.SIGKILL if fault == "launcher killed" else signal.SIGTERM)

    def _heal(self) -> None:
        if self._trial.expected == "heals":
            self.undo()

    def _only_stopped_left(self) -> bool:
        running = [process for process in self._processes if process.poll() is None]
        return all(stopped(process.pid) for process in running)

    def _wake_stopped(self) -> None:
        victim = self._processes[self._trial.victim]
        if self._stopped_at is None and victim.poll() is None and stopped(victim.pid):
            self._stopped_at = time.monotonic()
        if self._stopped_at is not None and time.monotonic() > self._stopped_at + self._trial.pause:
            victim.send_signal(signal.SIGCONT)

    def _suspend(self) -> None:
        if self.acted is None and self._reached():
            self.acted = time.monotonic()
            self._send(signal.SIGSTOP)
        elif self.acted is not None and time.monotonic() > self.acted + self._trial.pause:
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        for process in self._processes:
            process.send_signal(number)

    def _reached(self) -> bool:
        """Whether the moment has come."""
        if self._due is None:
            word = {"meeting": '"begins"', "steps": '"met"', "end": '"done"'}[self._trial.phase]
            who = [self._trial.victim] if self._store is None else range(len(self._trial.machines))
            if not all(word_in(self._ranks / f"rank-{rank}.out", word) for rank in who):
                return False
            self._due = time.monotonic() + self._trial.moment
        return time.monotonic() >= self._due


def word_in(file: Path, word: str) -> bool:
    return file.exists() and word in file.read_text()


def stopped(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False
