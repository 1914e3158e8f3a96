"""What the rows say, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.characterize.row import Row


def answers(rows: Sequence[Row]) -> list[str]:
    """Return paragraphs in Markdown."""
    return []
