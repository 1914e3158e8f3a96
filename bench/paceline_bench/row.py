"""The rows that all benchmarks write; the same keys mean the same in all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from paceline.cli.output_file import write
from paceline_bench.table import column, wrong


@dataclass(frozen=True, kw_only=True)
class Row:
    """One system at one size. The fields are the keys in JSON; benchmarks add their own.

    bytes: S of nccl-tests, or what corresponds to it. buffer: the kind of memory that holds the data. time_us: median
    over the rounds of the time of one call on the slowest rank. cpu_us: median of the CPU time, user and system, of all
    ranks together per call. wrong: the number of wrong elements in the checks, over all ranks. iterations: the number
    of timed calls in all rounds.
    """

    collective: str
    algorithm: str = field(metadata=column("algorithm"))
    system: str = field(metadata=column("system"))
    path: str = field(metadata=column("path"))
    dtype: str = field(metadata=column("type"))
    bytes: int = field(metadata=column("size(B)"))
    ranks: int
    buffer: str = field(metadata=column("buffer"))
    time_us: float = field(metadata=column("time(us)", "{:.2f}"))
    cpu_us: float = field(metadata=column("cpu(us)", "{:.2f}"))
    wrong: int = field(metadata=column("#wrong", wrong))
    iterations: int


def records(rows: Sequence[Row], **more: object) -> list[dict[str, Any]]:
    """Return the rows as JSON values, each with the keys `more` in addition."""
    return [{**more, **asdict(row)} for row in rows]


def write_json(found: list[dict[str, Any]], file: Path) -> None:
    """Write the records as a JSON list. Raises UsageError if the file cannot be written."""
    write(file, lambda: json.dumps(found, indent=1) + "\n")
