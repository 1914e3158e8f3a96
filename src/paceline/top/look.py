"""Asks the ranks of a running job on this machine for their figures, now and since the last time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.observe.figures import MAX_BYTES, Figures, decode
from paceline.observe.rates import Rates, rates
from paceline.observe.stragglers import Last, arrived_last
from paceline.trace import live
from paceline.trace.asking import Silence

ANSWER_SECONDS = 2.0
"""Seconds that a rank may take to answer."""


@dataclass(frozen=True)
class Row:
    """One rank: its figures, its rates since the previous picture, and how often it arrived last (None if unknown)."""

    figures: Figures
    rates: Rates
    last: Last | None


@dataclass(frozen=True)
class Picture:
    """A job, as far as it runs on this machine.

    size: the number of ranks in the job. silent: for each rank that did not answer, the reason. elsewhere: the number
    of ranks on other machines, which are not shown. gone: the number of ranks that should be on this machine and are
    not.
    """

    size: int
    rows: tuple[Row, ...]
    silent: Mapping[int, str]
    elsewhere: int = 0
    gone: int = 0


class Job:
    """The ranks of one job. `picture` may be called repeatedly.

    pid: the process of any rank, to choose the job if several run here.

    Raises ValueError with one sentence if there is no such job here or the choice is ambiguous.
    """

    def __init__(self, pid: int | None) -> None:
        self._names = live.choose(live.listening(), pid)
        self._before: dict[int, Figures] = {}

    def ask(self) -> None:
        """Take the figures that the next picture is compared with. Raises ValueError if no rank answers."""
        self._before = {one.rank: one for one in self._ask()[0]}

    def picture(self) -> Picture:
        """Return what happened since the last call of `picture` or `ask`.

        Raises ValueError once no rank answers any more.
        """
        figures, silent = self._ask()
        before, self._before = self._before, {one.rank: one for one in figures}
        last = arrived_last(figures, before)
        rows = tuple(Row(one, rates(one, before.get(one.rank)), last.get(one.rank)) for one in figures)
        size = figures[0].size
        unseen = max(0, size - len(figures) - len(silent))
        elsewhere = min(unseen, figures[0].elsewhere)
        return Picture(size, rows, {one.name.rank: str(one) for one in silent}, elsewhere, unseen - elsewhere)

    def _ask(self) -> tuple[Sequence[Figures], Sequence[Silence]]:
        figures, silent = live.ask_all(self._names, "figures", decode, ANSWER_SECONDS, MAX_BYTES)
        return sorted(figures.values(), key=lambda one: one.rank), silent
