"""The options of a coordinator: how its ranks agree on an order, and how much they send at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from paceline.calibration import coordinate as fitted
from paceline.settings.parsers import POLICIES
from paceline.settings.settings import Settings

WAITS = ("spin", "yield")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a coordinator, which are the same on all its ranks. Raises ValueError if they make no sense.

    policy: `board` (ranks see in shared memory what is ready, without cycles), `graph` (the order is known beforehand,
    see `Coordinator.set_order`), `cycle` (ranks poll, as in Horovod v0.16.3), `global_sleep` and `nonblocking` (its
    variants).
    wait: how `cycle` and `global_sleep` wait for each other: "spin" or "yield".
    fusion_bytes: the most bytes of small tensors that are combined together.
    cycle_seconds: the seconds between polls of a polling policy. With `board`, the seconds for which requests that are
        ready are gathered while no rank waits for one; 0: they are not gathered.
    cache_capacity: how many names' requests a polling policy remembers.
    sleep_every: the number of cycles after which ranks with `global_sleep` agree again on how long to sleep.
    autotune: with `board`, find a better `fusion_bytes` in the first steps, and keep it.
    autotune_policy: with `board`, find out before that whether another policy is better.
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
    def from_settings(cls, settings: Settings) -> Options:
        """The options that the environment asks for, with the defaults where it says nothing."""
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

    @property
    def graph_bytes(self) -> int:
        """The most bytes of a buffer of policy `graph`, which waits until all of its tensors are ready."""
        return min(self.fusion_bytes, fitted.GRAPH_BYTES)

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
