"""What a job's elastic options allow."""

from __future__ import annotations

from dataclasses import dataclass

PATIENCE = 600.0
"""Seconds, as in Horovod."""


@dataclass(frozen=True, slots=True)
class Limits:
    """As horovodrun takes them. ranks: to begin with; least, most: to go on with (most: None for any number).

    patience: seconds that a round may wait for ranks or slots. resets: rounds after the first (None: any number).
    awaits_hosts: hosts may still come.
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
            raise ValueError(f"--elastic-timeout {self.patience:g} should be more than 0 seconds")
