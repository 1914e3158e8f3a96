"""Hosts on which a rank failed get no new ranks, for some time or for good: Horovod's blacklist."""

from __future__ import annotations

from dataclasses import dataclass, field

from paceline.formats.numbers import in_full


@dataclass
class Cooldown:
    """The hosts that get no new ranks because a rank failed there.

    cooldown: the shortest and the longest exclusion of a host, in seconds; it doubles with each failure. None excludes
    a host for good.

    Raises ValueError for a range outside 1 to 3600 s or in the wrong order.
    """

    cooldown: tuple[float, float] | None = None
    _until: dict[str, float] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cooldown is not None and not 1 <= self.cooldown[0] <= self.cooldown[1] <= 3600:
            raise ValueError(
                "--blacklist-cooldown-range should be two numbers of seconds from 1 to 3600, the smaller one first, "
                f"not {in_full(self.cooldown[0])} {in_full(self.cooldown[1])}"
            )

    def record_failure(self, host: str, now: float) -> None:
        """Exclude the host after a failure of a rank at `now`. A failure during an exclusion does not extend it."""
        if self.excludes(host, now):
            return
        if self.cooldown is None:
            self._until[host] = float("inf")
            return
        shortest, longest = self.cooldown
        self._until[host] = now + min(longest, shortest * 2.0 ** self._times.get(host, 0))
        self._times[host] = self._times.get(host, 0) + 1

    def excludes(self, host: str, now: float) -> bool:
        """Return whether the host gets no new ranks at `now`."""
        return now < self._until.get(host, now)

    def any_returns(self, now: float) -> bool:
        """Return whether a host that is excluded at `now` will be used again."""
        return any(now < until < float("inf") for until in self._until.values())
