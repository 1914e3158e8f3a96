"""How a coordinator comes to an order, and how much it sends at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from paceline.settings.parsers import POLICIES
from paceline.settings.settings import Settings

WAITS = ("spin", "yield")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """The same on all ranks. Raises ValueError for what cannot be meant.

    policy: `board` (what is ready is seen in shared memory, no cycles), `graph` (an order known beforehand, see
    `Coordinator.set_order`), `cycle` (polls, as Horovod v0.16.3), `global_sleep` and `nonblocking` (its variants).
    wait: how `cycle` and `global_sleep` wait for each other: "spin" or "yield".
    fusion_bytes: the most that small tensors are gathered to, to be reduced as one.
    cycle_seconds: of the polling policies: between polls. Of `board`: how long requests that are ready are gathered
        while no rank waits for one; 0 for not at all.
    cache_capacity: of the polling policies: names whose requests are remembered.
    sleep_every: of `global_sleep`: after how many cycles ranks agree again on how long to sleep.
    autotune: of `board`: find a better `fusion_bytes` in the first steps, and keep it.
    autotune_policy: beginning with `board`, and before that: find out whether another policy is better.
    """

    policy: str = "board"
    wait: str = "spin"
    fusion_bytes: int = 64 << 20
    cycle_seconds: float = 0.005
    cache_capacity: int = 1024
    sleep_every: int = 1
    autotune: bool = False
    autotune_policy: bool = False

    @classmethod
    def wished(cls, settings: Settings) -> Options:
        """What the environment asks for, and the defaults where it says nothing."""
        usual = cls()
        return cls(
            policy=_or(settings.policy, usual.policy),
            fusion_bytes=_or(settings.fusion_bytes, usual.fusion_bytes),
            cycle_seconds=_or(settings.cycle_seconds, usual.cycle_seconds),
            cache_capacity=_or(settings.cache_capacity, usual.cache_capacity),
            # What the user has set is not tuned.
            autotune=bool(settings.autotune) and settings.fusion_bytes is None,
            autotune_policy=bool(settings.autotune) and settings.policy is None,
        )

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ValueError(f"no such policy: {self.policy!r}; use one of {', '.join(POLICIES)}")
        if self.wait not in WAITS:
            raise ValueError(f"no such wait: {self.wait!r}; use one of {', '.join(WAITS)}")
        if self.fusion_bytes < 0:
            raise ValueError(f"fusion_bytes must not be negative, got {self.fusion_bytes}")
        if not 0 <= self.cycle_seconds <= 60:
            raise ValueError(f"cycle_seconds must be from 0 to 60, got {self.cycle_seconds}")
        if not 0 <= self.cache_capacity < 1 << 32:
            raise ValueError(f"cache_capacity must be from 0 to {(1 << 32) - 1}, got {self.cache_capacity}")
        if not 1 <= self.sleep_every < 1 << 32:
            raise ValueError(f"sleep_every must be from 1 to {(1 << 32) - 1}, got {self.sleep_every}")
        if self.autotune_policy and self.policy != "board":
            raise ValueError(f'autotune_policy begins with policy "board", not with {self.policy!r}')


def _or(wish: T | None, usual: T) -> T:
    return usual if wish is None else wish
