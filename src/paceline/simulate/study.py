"""Studies that ship: a paper's figures beside what the simulator gives for them. Each study is one YAML file."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import yaml

from paceline.simulate import pipeline_study, plan_study, policy_study, question_study
from paceline.simulate.row import Row


def names() -> list[str]:
    """Return the names of all studies."""
    found = (each.name for each in (files("paceline.simulate") / "studies").iterdir())
    return sorted(name.removesuffix(".yaml") for name in found if name.endswith(".yaml"))


def load(name: str) -> dict[str, Any]:
    """Return a study's file, with the numbers of the study that it is `like` where it has none of its own.

    Raises ValueError, which names the studies that there are.
    """
    if name not in names():
        raise ValueError(f"there is no study {name!r:.80}; choose one of {', '.join(names())}")
    text = (files("paceline.simulate") / "studies" / f"{name}.yaml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    if "like" in document:
        other = load(document["like"])
        for part in ("given", "assumed", "fitted"):
            document[part] = {**other.get(part, {}), **document.get(part, {})}
    return document


def run(study: dict[str, Any], progress: Callable[[str], None], counted: int | None = None) -> list[Row]:
    """Simulate a study and return its figures.

    progress: is told what is simulated. counted: steps of each job,
    None for those that the study says.
    """
    if "questions" in study:
        return question_study.run(study, progress, counted or study["steps"])
    if "machines" in study:
        return plan_study.run(study, progress)
    if "partitions" in study.get("given", {}):
        return pipeline_study.run(study, progress, counted or study["steps"])
    return policy_study.run(study, progress, counted or study.get("steps", policy_study.STEPS))
