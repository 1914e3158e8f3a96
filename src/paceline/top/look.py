"""What the ranks of a running job on this machine say of themselves, at one moment and since the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.observe.figures import MAX_BYTES, Figures, decode
from paceline.observe.rates import Rates, rates
from paceline.observe.stragglers import Last, arrived_last
from paceline.trace import live
from paceline.trace.asking import Silence

PATIENCE = 2.0
"""Seconds that a rank may take to answer."""


@dataclass(frozen=True)
class Row:
    """One rank: its figures, what they say of the time since the picture before, and whether it was late."""

    figures: Figures
    rates: Rates
    last: Last | None


@dataclass(frozen=True)
class Picture:
    """Of a job, as far as it runs on this machine. silent: why a rank gave nothing, by rank. elsewhere: how many of
    its ranks are on other machines and not shown; gone: how many should be here and are not."""

    size: int
    rows: tuple[Row, ...]
    silent: Mapping[int, str]
    elsewhere: int = 0
    gone: int = 0


class Job:
    """The ranks of one job. `picture` may be called again and again.

    Raises ValueError, one sentence, if there is no such job here or the choice is not clear.
    """

    def __init__(self, pid: int | None) -> None:
        self._names = live.choose(live.listening(), pid)
        self._before: dict[int, Figures] = {}

    def ask(self) -> None:
        """Take the figures from which the next picture counts."""
        self._before = {one.rank: one for one in self._ask()[0]}

    def picture(self) -> Picture:
        """What happened since the last picture, or `ask`. Raises ValueError once no rank answers any more."""
        figures, silent = self._ask()
        before, self._before = self._before, {one.rank: one for one in figures}
        last = arrived_last(figures, before)
        rows = tuple(Row(one, rates(one, before.get(one.rank)), last.get(one.rank)) for one in figures)
        size = figures[0].size
        unseen = max(0, size - len(figures) - len(silent))
        elsewhere = min(unseen, figures[0].elsewhere)
        return Picture(size, rows, {one.name.rank: str(one) for one in silent}, elsewhere, unseen - elsewhere)

    def _ask(self) -> tuple[Sequence[Figures], Sequence[Silence]]:
        figures, silent = live.everyone(self._names, "figures", decode, PATIENCE, MAX_BYTES)
        return sorted(figures.values(), key=lambda one: one.rank), silent
