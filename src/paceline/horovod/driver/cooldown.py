"""Hosts on which a rank failed get no new ranks, for ever or for some time: Horovod's blacklist."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Resting:
    """cooldown: the shortest and the longest rest in seconds, which doubles with each failure; None: for ever."""

    cooldown: tuple[float, float] | None = None
    _until: dict[str, float] = field(default_factory=dict)
    _times: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.cooldown is not None and not 1 <= self.cooldown[0] <= self.cooldown[1] <= 3600:
            raise ValueError(
                "--blacklist-cooldown-range should be two numbers of seconds from 1 to 3600, the smaller one first, "
                f"not {self.cooldown[0]:g} {self.cooldown[1]:g}"
            )

    def rest(self, host: str, now: float) -> None:
        """A rank failed there. What fails while its host rests does not count again."""
        if self.rests(host, now):
            return
        if self.cooldown is None:
            self._until[host] = float("inf")
            return
        shortest, longest = self.cooldown
        self._until[host] = now + min(longest, shortest * 2.0 ** self._times.get(host, 0))
        self._times[host] = self._times.get(host, 0) + 1

    def rests(self, host: str, now: float) -> bool:
        """Whether the host gets no new ranks at this moment."""
        return now < self._until.get(host, now)

    def returning(self, now: float) -> bool:
        """Whether some host that rests will be used again."""
        return any(now < until < float("inf") for until in self._until.values())
