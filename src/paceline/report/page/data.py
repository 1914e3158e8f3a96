"""The data that the page's script draws: a bounded part of the ranks, steps and tensors of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paceline.observe.report import Report
from paceline.report.verdict.of_report import steps_of
from paceline.report.verdict.parts import RankStep, spans_of
from paceline.report.verdict.tensors import tensors
from paceline.simulate.recording import Recording

MAX_RANKS = 64
"""Ranks that are drawn."""
MAX_STEPS = 100
"""Steps that are drawn of each rank: the newest."""
MAX_SPANS = 100_000
"""Parts of steps that are drawn in all. Where a step has many calls, fewer steps are drawn, and at least one."""
PARTS = ("computation", "last_rank", "negotiation", "transfer")
"""The parts of a step, by their numbers in the data."""
MAX_TENSORS = 1000
"""Tensors that are shown: those that take longest."""
MAX_NAME = 200
"""Characters of a tensor's name that are shown."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """The data that the script gets, and what was left out."""

    data: dict[str, object]
    ranks_left_out: int = 0
    tensors_left_out: int = 0


def drawn(report: Report, run: Recording | None) -> Drawn:
    """Return what is drawn of a run; nothing where its steps are not known.

    Times are microseconds; those of steps count from the first one that is drawn. A step of a rank is a list: when it
    began, then for each of its parts its number in PARTS and its end.
    """
    if run is None:
        return Drawn({"ranks": [], "steps": [], "tensors": []})
    steps, _, blocking = steps_of(report, run)
    ranks = _ranks(steps)
    spans = sum(1 for rank in ranks for _ in spans_of(steps[rank][-1], blocking))
    rows = [steps[rank][-max(1, min(MAX_STEPS, MAX_SPANS // spans)) :] for rank in ranks]
    origin = min(one.begin for row in rows for one in row)
    found = sorted(tensors(run), key=lambda one: -(one.waited + one.exchanged))
    shown = found[:MAX_TENSORS]
    return Drawn(
        {
            "ranks": [[report.ranks[rank].figures.rank, report.ranks[rank].figures.host[:MAX_NAME]] for rank in ranks],
            "steps": [[_parts(one, blocking, origin) for one in row] for row in rows],
            "tensors": [
                {
                    "name": one.name[:MAX_NAME],
                    "bytes": one.nbytes,
                    "steps": one.steps,
                    "waited": _microseconds(one.waited),
                    "exchanged": _microseconds(one.exchanged),
                    "late": [_microseconds(one.late[rank]) for rank in ranks],
                }
                for one in shown
            ],
        },
        len(steps) - len(ranks),
        len(found) - len(shown),
    )


def _ranks(steps: Sequence[Sequence[RankStep]]) -> list[int]:
    """The ranks that are drawn, ascending: if there are too many, those that were ready last."""
    lateness = {rank: sum(one.ready for one in row) for rank, row in enumerate(steps)}
    return sorted(sorted(lateness, key=lambda rank: -lateness[rank])[:MAX_RANKS])


def _parts(one: RankStep, blocking: bool, origin: float) -> list[int]:
    found = [_microseconds(one.begin - origin)]
    for part, begin, end in spans_of(one, blocking):
        if end > begin:
            found += PARTS.index(part), _microseconds(end - origin)
    return found


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
