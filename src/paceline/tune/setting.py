"""The tuned settings of a job: its processes, the threads of each, its cores, its batch, its model's partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BATCH = "{batch}"
"""Stands in the user's command for the batch of each process, or of each replica of a model in partitions."""
SHAPE = "{shape}"
"""Stands in the user's command for partitions x replicas x microbatches."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The division of a model by `paceline.torch.hybrid`: a process for each partition of each replica."""

    partitions: int
    replicas: int
    microbatches: int

    def __str__(self) -> str:
        return f"{self.partitions}x{self.replicas}x{self.microbatches}"

    @property
    def processes(self) -> int:
        """All partitions of all replicas."""
        return self.partitions * self.replicas


@dataclass(frozen=True, slots=True)
class Setting:
    """One way to start the script.

    threads: the intra-op threads of each process. cores: the mode by which each process divides its cores among engine,
    input workers and compute (see `paceline.cpu.partition`). interop: the inter-op threads of each process, None for
    the framework's default. batch: the samples of each process (of each replica, with a shape) and step, None if nobody
    said it. shape: how the model is divided, None if nobody said it.
    """

    processes: int
    threads: int
    cores: str = "off"
    interop: int | None = None
    batch: int | None = None
    shape: Shape | None = None

    def __str__(self) -> str:
        parts = [f"{self.processes} × {self.threads}"]
        parts += [f"cores {self.cores}"] * (self.cores != "off")
        parts += [f"inter-op {self.interop}"] * (self.interop is not None)
        parts += [f"batch {self.batch}"] * (self.batch is not None)
        parts += [f"shape {self.shape}"] * (self.shape is not None)
        return ", ".join(parts)

    @property
    def demand(self) -> tuple[int, ...]:
        """The demand on the machine and on the user; of settings that are equally fast, the least is preferred."""
        divided = (self.shape.partitions, self.shape.microbatches) if self.shape else (1, 1)
        asked = self.interop or 0, self.batch or 0
        return self.processes * self.threads, self.processes, self.cores != "off", *asked, *divided

    @property
    def replicas(self) -> int:
        """The number of batches that a step takes."""
        return self.shape.replicas if self.shape else self.processes

    def command(self, words: Sequence[str]) -> tuple[str, ...]:
        """Return the user's command with this setting's batch and shape in place of `{batch}` and `{shape}`."""
        values = {BATCH: self.batch, SHAPE: self.shape}
        return tuple(_filled(word, values) for word in words)


@dataclass(frozen=True, slots=True)
class Samples:
    """The number of samples that a step takes.

    strong: whether all processes share one batch (strong scaling); otherwise each, or each replica, has its own.
    """

    strong: bool = False

    def per_step(self, setting: Setting) -> int:
        """The effective batch; if the batch is not known, the number of equal batches in it."""
        return (setting.batch or 1) * (1 if self.strong else setting.replicas)

    def unit(self, setting: Setting) -> str:
        """Return the unit in which throughput is counted."""
        return "samples/s" if setting.batch is not None else "steps/s" if self.strong else "batches/s"


def _filled(word: str, values: Mapping[str, object]) -> str:
    for name, value in values.items():
        word = word if value is None else word.replace(name, str(value))
    return word
