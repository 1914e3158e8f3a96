"""The rank for which the others wait, in the words of the report."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.monitor.top.look import Row
from paceline.observe.stragglers import sentence
from paceline.report.verdict.slow import COMPUTES, INPUT, slow

LATE = 0.5
"""A rank is late if it arrives last more often than an even share by this fraction."""
_CLEAR = 0.05
"""The share of a step that the other ranks must wait for it to be news."""


def is_late(row: Row, ranks: int) -> bool:
    """Return whether a rank comes last more often than others do by chance."""
    return row.last is not None and ranks > 1 and row.last.share > (1 + LATE) / ranks


def headline(rows: Sequence[Row]) -> str:
    """Return what the late ranks take longer for and which is late by how much; "" if the ranks are alike."""
    late = [row for row in rows if is_late(row, len(rows)) and row.last is not None and row.last.late_ms]
    if not late:
        return ""
    worst = max(late, key=lambda row: row.last.share * (row.last.late_ms or 0.0) if row.last is not None else 0.0)
    last, longest = worst.last, max(row.rates.step_ms or 0.0 for row in rows)
    if last is None or last.late_ms is None or last.share * last.late_ms < _CLEAR * longest:
        return ""
    found = sentence(worst.figures.rank, worst.figures.host, last.share, last.late_ms / 1e3)
    why = _why(rows, worst)
    return f"{why[0].upper()}{why[1:]}. {found}" if why else found


def _why(rows: Sequence[Row], late: Row) -> str:
    """Say what it takes longer for: shares of the time are taken of the median step, for few steps may be in it."""
    ranks = [(row.figures.rank, row.figures.host) for row in rows]
    steps = [(row.rates.step_ms or 0.0) / 1e3 for row in rows]
    waited = [(row.rates.data_ms or 0.0) / 1e3 * row.rates.steps / row.rates.seconds for row in rows]
    data = [step * share for step, share in zip(steps, waited, strict=True)]
    computed = [
        max(0.0, step * (1 - row.rates.exposed - share)) for row, step, share in zip(rows, steps, waited, strict=True)
    ]
    causes = [slow(taken, ranks, by) for by, taken in ((COMPUTES, computed), (INPUT, data))]
    known = [one for one in causes if one is not None and late.figures.rank in one.ranks]
    most = max(known, key=lambda one: one.seconds - one.others, default=None)
    return most.sentence if most is not None else ""
