"""A characterisation as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from paceline_bench.characterize.approaches import NONE
from paceline_bench.characterize.row import Row
from paceline_bench.table import columns
from paceline_bench.table import table as made

PARTS = ("compute", "waiting", "negotiation", "copies", "transfer")
"""The parts of a step, in order."""
FIGURES = columns(Row, "images_per_s", "images_per_s_q1", "efficiency", "step_ms", *(f"{part}_ms" for part in PARTS))
"""Columns; times are in ms."""


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows by configuration, and in each the fastest first."""
    return sorted(rows, key=lambda row: (row.configuration, row.kind == NONE, -row.efficiency))


def table(rows: Sequence[Row]) -> Table:
    """Return a table with a row for each approach in each configuration."""
    return made(
        columns(Row, "network", "model", "image_size", "batch", "ranks", "approach", *FIGURES, "wrong"),
        ordered(rows),
        section=lambda row: row.configuration,
        bold=lambda row: row.approach == "paceline",
    )
