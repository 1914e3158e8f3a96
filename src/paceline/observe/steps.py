"""The steps of a training job, as a framework tells them, or as the communication suggests them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple
from weakref import WeakSet

MAX_NAMES = 8192
"""Names, or kinds of calls, that are remembered."""
_RECENT = 1024
"""Steps whose times count for the median."""
_WINDOW = 2048
"""Calls among which a repetition is looked for."""
SMALL = 1024
"""Bytes of a call; a smaller one is more likely a metric or a barrier than gradients."""
_SELDOM = 0.25
"""The share of the usual kind's calls below which a kind is an evaluation, or a checkpoint, and not part of a step."""


class KnownSteps:
    """Counts steps by a framework's optimizers: a step ends with the last one that steps before one steps again.

    So a step is a single one even if each parameter has its own optimizer, or if two models take turns.
    """

    def __init__(self) -> None:
        self._stepped: WeakSet[object] = WeakSet()  # in this step; an optimizer that is gone has no part in it
        self._began_ns = 0
        self._recent: deque[int] = deque(maxlen=_RECENT)
        self.count = 0
        """Steps in which at least one optimizer has stepped."""

    def add(self, optimizer: object, now_ns: int) -> None:
        """Note that this optimizer has stepped. now_ns: a monotonic clock."""
        if self._stepped and optimizer not in self._stepped:
            self._stepped.add(optimizer)
            return
        self._stepped = WeakSet([optimizer])
        if self.count:
            self._recent.append(now_ns - self._began_ns)
        self._began_ns = now_ns
        self.count += 1

    def begins_ns(self) -> list[int]:
        """Return when the last steps began, oldest first, by the clock that `add` was told."""
        found = [self._began_ns] if self.count else []
        for length in reversed(self._recent):
            found.append(found[-1] - length)
        return found[::-1]

    @property
    def median_ns(self) -> int:
        """The median time of the last steps in nanoseconds; 0 before there are two."""
        return round(median(list(self._recent))) if self._recent else 0


class NamedSteps:
    """Counts steps by names: a step lasts from one submission of the anchor's name to the next.

    The anchor is the name that has carried the most bytes among those that have come more than once: a large gradient,
    which comes once a step, and not a metric that is averaged at any time.
    """

    def __init__(self) -> None:
        self._names: dict[str, tuple[int, int, int]] = {}  # how often it came, its bytes in all, and when it came last
        self._begins: deque[int] = deque(maxlen=_RECENT + 1)
        self.anchor = ""
        self.count = 0
        """Steps that have begun; 0 until a name has come a second time."""

    def add(self, name: str, size: int, submitted_ns: int) -> None:
        """Take in a request of `size` bytes that was submitted at `submitted_ns`."""
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
        if led or (leads and times >= self.count):  # a new anchor counts this step unless the one before it has
            if not self.count:
                self.count = 1
                self._begins.append(before)
            self.count += 1
            self._begins.append(max(submitted_ns, self._begins[-1]))

    def begins_ns(self) -> list[int]:
        """Return when the last steps began, oldest first, by the clock that `add` was told."""
        return list(self._begins)

    @property
    def median_ns(self) -> int:
        """The median time of the last steps in nanoseconds; 0 before there are any."""
        return round(median(b - a for a, b in pairwise(self._begins))) if self.count else 0


class _Anchor(NamedTuple):
    """The kind of call that steps are counted by, and how often it comes in each."""

    call: Hashable
    times: int


class NamelessSteps:
    """Counts steps of collectives without names: a step is the shortest row of calls that repeats itself.

    Calls are compared by kind, dtype and bytes. Small calls are left out of the row if there are larger ones; if
    nothing repeats itself then, calls of rare kinds are left out, too. Once a row is found, steps are counted by the
    kind that is rarest in it, whatever comes between.
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[Hashable, int, int]] = deque(maxlen=_WINDOW)
        self._came: Counter[Hashable] = Counter()
        self._new: Counter[Hashable] = Counter()
        self._anchor: _Anchor | None = None
        self._begins: list[int] = []
        self.count = 0.0
        """Steps that have begun."""
        self.median_ns = 0

    def add(self, call: Hashable, size: int, begin_ns: int) -> None:
        """Take in a collective of `size` bytes. call: its kind. begin_ns: when it was called."""
        self._calls.append((call, size, begin_ns))
        self._new[call] += 1

    def begins_ns(self) -> list[int]:
        """Return when the last steps began, oldest first, by the clock that `add` was told."""
        return list(self._begins)

    def settle(self, passed: int) -> None:
        """Count the steps of the calls since the last call of this, and of `passed` more calls like them."""
        before, self._anchor = self._anchor, _anchor([(call, size) for call, size, _ in self._calls]) or self._anchor
        self._came += self._new
        if self._anchor is not None:
            call, times = self._anchor
            begins = [begin for one, _, begin in self._calls if one == call]
            self.count += self._new[call] / times
            if self._anchor != before:  # the anchor may have come before it was known to be one
                self.count = max(self.count, self._came[call] / times)
            self.count += passed * len(begins) / len(self._calls) / times
            first = (len(begins) - self._came[call]) % times  # so that later looks find the same calls of a step
            self._begins = begins[first::times]
            if len(begins) > times:
                self.median_ns = round(median(b - a for a, b in zip(begins, begins[times:], strict=False)))
        self._new.clear()
        if len(self._came) > MAX_NAMES:
            self._came = Counter(dict(self._came.most_common(MAX_NAMES // 2)))


def _anchor(calls: Sequence[tuple[Hashable, int]]) -> _Anchor | None:
    for row in _rows(calls):
        if found := period(row):
            times = Counter(row[-found:])
            sizes = dict(calls)
            return _Anchor(*min(times.items(), key=lambda item: (item[1], -sizes[item[0]])))
    return None


def _rows(calls: Sequence[tuple[Hashable, int]]) -> Iterator[list[Hashable]]:
    """The rows that may repeat themselves: all large calls, large calls of common kinds, and all calls."""
    large = [call for call, size in calls if size >= SMALL]
    if large:
        yield large
        came = Counter(large)
        seldom = _SELDOM * median(came[call] for call in large)
        yield [call for call in large if came[call] >= seldom]
    yield [call for call, _ in calls]


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
