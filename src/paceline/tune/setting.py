"""What is tuned: the processes of a job, the threads of each, how its cores are divided, and the batch of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BATCH = "{batch}"
"""Stands in the user's command for the batch of each process."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to start the script.

    threads: the intra-op threads of each process. cores: the mode by which each process divides its cores among engine,
    input workers and compute (see `paceline.cpu.partition`). interop: the inter-op threads of each process, None for
    the framework's default. batch: the samples of each process and step, None if nobody said it.
    """

    processes: int
    threads: int
    cores: str = "off"
    interop: int | None = None
    batch: int | None = None

    def __str__(self) -> str:
        parts = [f"{self.processes} × {self.threads}"]
        parts += [f"cores {self.cores}"] * (self.cores != "off")
        parts += [f"inter-op {self.interop}"] * (self.interop is not None)
        parts += [f"batch {self.batch}"] * (self.batch is not None)
        return ", ".join(parts)

    @property
    def demand(self) -> tuple[int, int, bool, int, int]:
        """What it asks of the machine and of the user; of settings that are equally fast, the least is preferred."""
        return self.processes * self.threads, self.processes, self.cores != "off", self.interop or 0, self.batch or 0

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the user's command with this setting's batch in place of `{batch}`."""
        return tuple(word if self.batch is None else word.replace(BATCH, str(self.batch)) for word in words)


@dataclass(frozen=True, slots=True)
class Samples:
    """How many samples a step takes.

    strong: whether all processes share one batch (strong scaling); otherwise each has a batch of its own.
    """

    strong: bool = False

    def per_step(self, setting: Setting) -> int:
        """The effective batch; if the batch is not known, the number of equal batches in it."""
        return (setting.batch or 1) * (1 if self.strong else setting.processes)

    def unit(self, setting: Setting) -> str:
        """What throughput is counted in."""
        return "samples/s" if setting.batch is not None else "steps/s" if self.strong else "batches/s"
