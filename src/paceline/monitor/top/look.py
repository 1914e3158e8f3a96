"""Asks the ranks of a running job for their figures, now and since the last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.observe.ask import ANSWER_SECONDS, ask
from paceline.observe.figures import Figures
from paceline.observe.rates import Rates, rates
from paceline.observe.stragglers import Last, arrived_last
from paceline.observe.trace import live

FIRST_SECONDS = 22.0
"""Seconds that a rank on another machine may take for its first answer: one that does not communicate looks for
questions three times a minute, and more often once it was asked."""


@dataclass(frozen=True)
class Row:
    """One rank: its figures, its rates since the previous picture, and how often it arrived last (None if unknown)."""

    figures: Figures
    rates: Rates
    last: Last | None


@dataclass(frozen=True)
class Picture:
    """A job, as far as its ranks answer.

    size: the number of ranks in the job. silent: for each rank that did not answer, the reason. elsewhere: the number
    of ranks on other machines of which nothing is known. gone: the number of ranks that should be on this machine and
    are not.
    """

    size: int
    rows: tuple[Row, ...]
    silent: Mapping[int, str]
    elsewhere: int = 0
    gone: int = 0


class Job:
    """The ranks of one job. `picture` may be called repeatedly.

    pid: the process of any rank on this machine, to choose the job if several run here.

    Raises ValueError with one sentence if there is no such job here or the choice is ambiguous.
    """

    def __init__(self, pid: int | None) -> None:
        self._names = live.choose(live.listening(), pid)
        self._before: dict[int, Figures] = {}
        self._missing_here = 0  # ranks of this machine that have ended

    def ask(self) -> None:
        """Take the figures that the next picture is compared with. Raises ValueError if no rank answers."""
        self._before = {one.rank: one for one in self._ask(FIRST_SECONDS)[0]}

    def picture(self) -> Picture:
        """Return what happened since the last call of `picture` or `ask`.

        Raises ValueError once no rank answers any more.
        """
        figures, silent = self._ask(ANSWER_SECONDS)
        before, self._before = self._before, {one.rank: one for one in figures}
        last = arrived_last(figures, before)
        rows = tuple(Row(one, rates(one, before.get(one.rank)), last.get(one.rank)) for one in figures)
        size = figures[0].size
        unseen = max(0, size - len(figures) - len(silent))
        gone = min(unseen, self._missing_here)
        return Picture(size, rows, silent, unseen - gone, gone)

    def _ask(self, far_seconds: float) -> tuple[Sequence[Figures], Mapping[int, str]]:
        found = ask(self._names, far_seconds)
        self._missing_here = max(0, found.expected - found.here)
        return found.figures, found.silent
