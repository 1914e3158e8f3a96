"""A figure of a paper beside the simulated one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A figure of the paper beside the simulated one."""

    figure: str
    quantity: str
    unit: str
    paper: float | None
    """None where the paper has no such figure."""
    simulated: float
    fitted: bool
    """True if the model was fitted to this figure."""
    why: str = ""
    """The reason why the paper's figure is out of reach, where it is."""


def row(figure: Mapping[str, Any], simulated: float) -> Row:
    """Return the row of a figure as a study's file describes it."""
    return Row(
        figure=figure["figure"],
        quantity=figure["quantity"],
        unit=figure["unit"],
        paper=figure.get("paper"),
        simulated=simulated,
        fitted=figure.get("fitted", False),
        why=figure.get("why", ""),
    )
