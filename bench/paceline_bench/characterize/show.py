"""A characterisation as a table in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from paceline_bench.characterize.approaches import NONE
from paceline_bench.characterize.row import Row
from paceline_bench.report import columns, wrong

COLUMNS = ("images/s", "quartiles", "efficiency", "step(ms)")
PARTS = ("compute", "waiting", "negotiation", "copies", "transfer")
"""The parts of a step, in order."""


def ordered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows by configuration, and in each the fastest first."""
    return sorted(rows, key=lambda row: (row.configuration, row.kind == NONE, -row.efficiency))


def table(rows: Sequence[Row]) -> Table:
    """Return a table with a row for each approach in each configuration; times are in ms."""
    left = ("network", "model", "approach")
    result = columns("network", "model", "px", "batch", "ranks", "approach", *COLUMNS, *PARTS, "#wrong", left=left)
    found = ordered(rows)
    for number, row in enumerate(found):
        result.add_row(
            row.network,
            row.model,
            str(row.image_size),
            str(row.batch),
            str(row.ranks),
            row.approach,
            *figures(row),
            wrong(row.wrong),
            style="bold" if row.approach == "paceline" else "",
            end_section=number + 1 < len(found) and found[number + 1].configuration != row.configuration,
        )
    return result


def figures(row: Row) -> tuple[str, ...]:
    """Return what stands in `COLUMNS` and `PARTS`; times are in ms."""
    parts = (getattr(row, f"{part}_ms") for part in PARTS)
    return (
        f"{row.images_per_s:.1f}",
        f"{row.images_per_s_q1:.1f}–{row.images_per_s_q3:.1f}",
        f"{row.efficiency:.1%}",
        f"{row.step_ms:.1f}",
        *("–" if part is None else f"{part:.1f}" for part in parts),
    )
