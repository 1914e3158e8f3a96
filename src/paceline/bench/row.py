"""What all benchmarks write: rows with the same keys where they mean the same."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from paceline.cli.output_file import write


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system at one size; the fields are the JSON's keys, benchmarks add their own.

    bytes: S of nccl-tests, or what stands in its place. buffer: where the data lie. time_us: median over the rounds of
    one call of the slowest rank; cpu_us: median of the CPU time, user and system, of all ranks together, per call.
    wrong: elements, over all ranks, in the checks. iterations: timed calls, all rounds together.
    """

    collective: str
    algorithm: str
    system: str
    path: str
    dtype: str
    bytes: int
    ranks: int
    buffer: str
    time_us: float
    cpu_us: float
    wrong: int
    iterations: int


def records(rows: Sequence[Row], **more: object) -> list[dict[str, Any]]:
    """Rows as JSON has them, each with `more` keys."""
    return [{**more, **asdict(row)} for row in rows]


def write_json(found: list[dict[str, Any]], file: Path) -> None:
    """A list of records."""
    write(file, lambda: json.dumps(found, indent=1) + "\n")
