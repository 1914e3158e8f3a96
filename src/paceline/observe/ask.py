"""Asks all ranks of a running job for their figures, those of this machine and through one of them the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from paceline.observe.figures import MAX_BYTES, Figures, decode
from paceline.observe.trace import far, live
from paceline.observe.trace.listener import Name

ANSWER_SECONDS = 2.0
"""Seconds that a rank may take to answer."""


@dataclass(frozen=True)
class Answers:
    """figures: those of the ranks that have answered, by rank. silent: for each that has not, the reason. here: how
    many ranks of the job have answered on this machine, or are silent here. expected: how many are on this machine."""

    figures: Sequence[Figures]
    silent: Mapping[int, str]
    here: int
    expected: int


def ask(names: Sequence[Name], far_seconds: float = ANSWER_SECONDS) -> Answers:
    """Ask the ranks of one job. names: those on this machine. far_seconds: the time that those elsewhere have.

    Raises ValueError if no rank of this machine answers.
    """
    here, quiet = live.ask_all(names, "figures", decode, ANSWER_SECONDS, MAX_BYTES)
    found: dict[int, Figures] = {}
    silent: dict[int, str] = {}
    if through := next((name for name, one in here.items() if one.elsewhere), None):
        found, silent = far.ask(through, decode, far_seconds, MAX_BYTES)
    found.update({one.rank: one for one in here.values()})
    silent.update({one.name.rank: str(one) for one in quiet})
    return Answers(
        figures=sorted(found.values(), key=lambda one: one.rank),
        silent={rank: why for rank, why in silent.items() if rank not in found},
        here=len(here) + len(quiet),
        expected=min((one.size - one.elsewhere for one in here.values()), default=0),
    )
