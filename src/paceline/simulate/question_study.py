"""Studies of whole jobs: each figure is a question as a user asks it, answered by an efficiency."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from paceline.simulate.links import UPLINK
from paceline.simulate.question import Question, scenarios
from paceline.simulate.row import Row, row
from paceline.simulate.scenario import AUTO, Doubt
from paceline.topology.units import parse_time


def run(study: Mapping[str, Any], progress: Callable[[str], None], counted: int) -> list[Row]:
    """Simulate a study's jobs, `counted` steps of each run, and return its figures."""
    found = []
    for figure in study["figures"]:
        progress(figure["quantity"])
        found.append(row(figure, 100 * _efficiency(figure, counted, study["runs"])))
    return found


def _efficiency(figure: Mapping[str, Any], counted: int, runs: int) -> float:
    """The throughput of a rank as a fraction of that of one alone, or of one of a machine's if the figure says so."""
    asked = dict(figure["ask"])
    question = Question(seconds=parse_time(asked.pop("step")), **asked)
    found = _answer(question, counted, runs)
    if "beside" not in figure:
        return found
    inside = [link for link in question.links if not link.startswith(UPLINK)]
    return found / _answer(replace(question, ranks=str(figure["beside"]), algorithm=AUTO, links=inside), counted, runs)


def _answer(question: Question, counted: int, runs: int) -> float:
    (one,) = scenarios(question, None)
    return replace(one, doubt=Doubt()).answer(counted, runs).efficiency
