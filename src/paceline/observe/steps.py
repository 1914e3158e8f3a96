"""What a step of a training job is, told from its communication alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from statistics import median

MAX_NAMES = 8192
_RECENT = 1024
_WINDOW = 2048


class NamedSteps:
    """Where tensors have names: a step is the time from one hand-in of a certain name to its next.

    That name is, of those that have come round again, the one that has carried the most bytes: a large gradient, which
    comes once a step, and not a metric that is averaged whenever somebody likes.
    """

    def __init__(self) -> None:
        self._names: dict[str, tuple[int, int, int]] = {}  # how often, bytes in all, when last
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self.anchor = ""
        self.count = 0
        """Steps that are over."""

    def add(self, name: str, size: int, submitted_ns: int) -> None:
        """A request of `size` bytes, handed in then."""
        if name not in self._names and len(self._names) >= MAX_NAMES:
            return
        times, carried, before = self._names.get(name, (0, 0, 0))
        self._names[name] = times + 1, carried + size, submitted_ns
        if not times:
            return
        led = name == self.anchor
        leads = led or not self.anchor or carried + size > self._names[self.anchor][1]
        if leads:
            self.anchor = name
        if led or (leads and times > self.count):  # who takes the lead counts this step unless the one before has
            self.count += 1
            self._recent.append(max(0, submitted_ns - before))

    @property
    def median_ns(self) -> int:
        """Of the last steps; 0 before there are any."""
        return round(median(self._recent)) if self._recent else 0


class NamelessSteps:
    """Where they have none: a step is the shortest row of collectives that repeats itself, by kind, dtype and bytes."""

    def __init__(self) -> None:
        self._calls: deque[tuple[Hashable, int]] = deque(maxlen=_WINDOW)
        self._new = 0
        self.count = 0.0
        self.median_ns = 0

    def add(self, call: Hashable, begin_ns: int) -> None:
        """A collective: what it is, and when it was called."""
        self._calls.append((call, begin_ns))
        self._new += 1

    def settle(self, passed: int) -> None:
        """Count the steps of the calls since the last time, and of `passed` more like them."""
        found = period([call for call, _ in self._calls])
        if found:
            self.count += (self._new + passed) / found
            begins = [begin for _, begin in self._calls]
            self.median_ns = round(median(b - a for a, b in zip(begins, begins[found:], strict=False)))
        self._new = 0


def period(calls: Sequence[Hashable]) -> int:
    """The length of the row that the newest calls repeat, for half of all calls or longer; 0 if there is none.

    By the Z-algorithm (D. Gusfield, "Algorithms on Strings, Trees and Sequences", 1997), in linear time.
    """
    backwards = calls[::-1]
    length = len(backwards)
    same = [0] * length
    left = right = 0
    for i in range(1, length):
        if i < right:
            same[i] = min(right - i, same[i - left])
        while i + same[i] < length and backwards[same[i]] == backwards[i + same[i]]:
            same[i] += 1
        if i + same[i] > right:
            left, right = i, i + same[i]
        if i + same[i] == right and same[i] >= max(i, length / 2):
            return i
    return 0
