"""What can befall a job, and one trial of it, drawn from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Literal

Phase = Literal["meeting", "steps", "end"]
Face = Literal["raw", "torch", "horovod", "hybrid"]
Expected = Literal["lost", "silent", "heals", "either", "cut", "over"]

EVERYWHERE: tuple[Phase, ...] = ("meeting", "steps", "end")
FACES: tuple[Face, ...] = ("raw", "torch", "horovod")
TIMEOUT = 6.0
"""Seconds that ranks wait for each other where somebody never answers."""
STORE_TIMEOUT = 8.0
"""Seconds that ranks wait for a store, without which they cannot meet at all."""
PATIENCE = 60.0
"""Seconds that they wait where nobody should have to: a rank that dies is noticed by its sockets."""


@dataclass(frozen=True)
class Fault:
    """A kind of fault.

    expected: what must come of it. "lost": the victim goes, and the others name it. "silent": it does nothing any more,
    and they name it at the timeout. "heals": all go on to the end. "either": the victim raises and is named, or all go
    on to the end. "cut": some ranks no longer reach others; all are told which, or wait and go on. "over": all end.
    place: who does it to the job: the victim itself, whoever watches it, or the network of a lab.
    """

    name: str
    expected: Expected
    place: Literal["victim", "watcher", "network", "store", "launcher"] = "victim"
    phases: tuple[Phase, ...] = EVERYWHERE
    faces: tuple[Face, ...] = FACES


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("kill", "lost", faces=(*FACES, "hybrid")),
        Fault("terminate", "lost"),
        Fault("segfault", "lost"),
        Fault("_exit", "lost"),
        Fault("sys.exit", "lost"),
        Fault("exception", "lost", faces=(*FACES, "hybrid")),
        Fault("signal handler raises", "lost"),
        Fault("two killed", "lost", phases=("steps",)),
        Fault("stop", "silent", faces=(*FACES, "hybrid")),
        Fault("pause", "heals"),
        Fault("long pause", "silent", phases=("steps",)),
        Fault("suspended job", "heals", "watcher", ("meeting", "steps")),
        Fault("memory limit", "either", phases=("meeting", "steps")),
        Fault("descriptor limit", "either", phases=("meeting", "steps")),
        Fault("full disk", "heals", phases=("steps",)),
        Fault("full disk, kill", "lost", phases=("steps",)),
        Fault("connections closed", "cut", phases=("steps",)),
        Fault("store dies", "either", "store", faces=("torch",)),
        Fault("store stops", "either", "store", faces=("torch",)),
        Fault("launcher killed", "over", "launcher", faces=("raw",)),
        Fault("launcher terminated", "over", "launcher", faces=("raw",)),
        Fault("cut", "cut", "network", ("meeting", "steps", "end"), ("raw",)),
        Fault("cut for a while", "heals", "network", ("meeting", "steps"), ("raw",)),
        Fault("link down", "cut", "network", ("meeting", "steps"), ("raw",)),
        Fault("one way", "cut", "network", ("meeting", "steps"), ("raw",)),
        Fault("packets too long", "cut", "network", ("meeting", "steps"), ("raw",)),
        Fault("slow link", "heals", "network", ("meeting", "steps"), ("raw",)),
    )
}
ARRANGEMENTS = ("00", "01", "000", "001", "012", "0011", "0123", "0000")
"""The machine of every rank, as jobs on one machine are told it; in a lab they are machines of it."""


@dataclass(frozen=True)
class Trial:
    """One of them. moment: seconds into its phase. pause: seconds that what is undone lasts."""

    seed: int
    fault: str
    phase: Phase
    face: Face
    machines: str
    victim: int
    moment: float
    pause: float
    policy: str
    timeout: float

    @property
    def expected(self) -> Expected:
        return FAULTS[self.fault].expected

    @property
    def victims(self) -> set[int]:
        """The ranks that go."""
        ranks = len(self.machines)
        return {self.victim, (self.victim + 1) % ranks} if self.fault == "two killed" else {self.victim}


def drawn(seed: int, fault: str) -> Trial:
    """The trial of this fault and seed."""
    choice = random.Random(f"{seed} {fault}")
    kind = FAULTS[fault]
    face = choice.choice(kind.faces)
    lines = kind.place == "network" or fault == "connections closed"
    arrangements = [each for each in ARRANGEMENTS if not lines or "1" in each]
    if fault == "two killed":
        arrangements = [each for each in arrangements if len(each) > 2]
    machines = "0011" if face == "hybrid" else choice.choice(arrangements)
    phase = choice.choice(("steps",) if face == "hybrid" else kind.phases)
    # Whoever was suspended for longer than the timeout goes on all the same.
    long = fault == "long pause" or (fault == "suspended job" and phase == "steps" and choice.random() < 0.5)
    waits = long or kind.expected in ("silent", "cut", "either") or (phase == "meeting" and kind.expected == "lost")
    timeout = STORE_TIMEOUT if kind.place == "store" else TIMEOUT if waits else PATIENCE
    longest = {"meeting": 0.15, "steps": 0.1, "end": 0.02}[phase]
    pause = timeout + choice.uniform(1.0, 2.0) if long else choice.uniform(0.05, 2.0)
    return Trial(
        seed,
        fault,
        phase,
        face,
        machines,
        choice.randrange(len(machines)),
        choice.uniform(0.0, longest),
        pause,
        choice.choice(("board", "board", "cycle", "nonblocking", "global_sleep")),
        timeout,
    )
