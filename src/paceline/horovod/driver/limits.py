"""The limits that a job's elastic options set."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.formats.numbers import in_full

PATIENCE = 600.0
"""Seconds that a round may wait by default, as in Horovod."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of an elastic job, from horovodrun's options.

    ranks: the number of ranks to start with. least, most: the fewest and the most ranks of a later round; a `most` of
    None sets no maximum. patience: seconds that a round may wait for ranks or slots. resets: the number of rounds
    allowed after the first; None sets no maximum. awaits_hosts: whether further hosts may appear.

    Raises ValueError for limits that contradict each other.
    """

    ranks: int
    least: int
    most: int | None = None
    patience: float = PATIENCE
    resets: int | None = None
    awaits_hosts: bool = False

    def __post_init__(self) -> None:
        if self.ranks < 1:
            raise ValueError(f"-np {self.ranks}: a job needs at least one rank")
        if not 1 <= self.least <= self.ranks:
            raise ValueError(f"--min-np {self.least} should be from 1 to -np, which is {self.ranks}")
        if self.most is not None and self.most < self.ranks:
            raise ValueError(f"--max-np {self.most} should not be less than -np, which is {self.ranks}")
        if self.resets is not None and self.resets < 0:
            raise ValueError(f"--reset-limit {self.resets} should not be less than 0")
        if not self.patience > 0:
            raise ValueError(f"--elastic-timeout {in_full(self.patience)} should be more than 0 seconds")
