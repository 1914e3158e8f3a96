"""Draws programs of a kind from a seed, judges each, and shrinks those that come out wrong.

    PYTHONPATH=tests python tests/differential/machine.py --seed 1 --minutes 10 --json rows.json

It prints a line for each kind and every program that differs, as small as Hypothesis can make it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.strategies import SearchStrategy

ROUND = 50
"""Programs until Hypothesis begins anew, with the next seed: it stops at the first that differs."""
FEW = 10
"""Programs between two looks at the clock where one that differs is all that is wanted."""
LINE = "{:12}{:>6}{:>10}{:>8}{:>9}{:>11}{:>6}{:>10}"


@dataclass(frozen=True)
class Kind:
    """Programs of a kind, and who judges them.

    judge: returns "equal" or "refused", or raises AssertionError with what differs.
    """

    name: str
    programs: SearchStrategy[Any]
    judge: Callable[[Any], str]


@dataclass
class Row:
    """What came of the programs of a kind. found: each program that came out wrong, and how."""

    kind: str
    seed: int
    programs: int = 0
    equal: int = 0
    refused: int = 0
    different: int = 0
    hung: int = 0
    seconds: float = 0.0
    found: list[str] = field(default_factory=list)


def explore(kind: Kind, seed: int, seconds: float, most: int = sys.maxsize, first: bool = False) -> Row:
    """Judge programs drawn from `seed` for so many seconds, or until there were `most`.

    first: stop at the first that comes out wrong, which stays as it was drawn.
    """
    row, begin = Row(kind.name, seed), time.monotonic()
    number = 0
    while row.programs < most and time.monotonic() - begin < seconds and not (first and row.found):
        _round(kind, row, seed * 1_000_003 + number, min(FEW if first else ROUND, most - row.programs), not first)
        number += 1
    row.seconds = round(time.monotonic() - begin, 1)
    return row


def _round(kind: Kind, row: Row, seed: int, most: int, shrinks: bool) -> None:
    counts = Counter[str]()
    wrong: Exception | None = None

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=most,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink) if shrinks else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        print_blob=False,
        report_multiple_bugs=False,
    )
    @hypothesis.given(program=kind.programs)
    def each(program: Any) -> None:
        nonlocal wrong
        if wrong is not None and not shrinks:
            raise wrong  # Hypothesis tries again what failed, which may hang
        if wrong is None:
            counts["programs"] += 1
        try:
            verdict = kind.judge(program)
        except Exception as error:
            wrong = error
            raise
        if wrong is None:
            counts[verdict] += 1

    try:
        each()
    except Exception as error:
        text = "\n".join([str(error), *getattr(error, "__notes__", [])])
        counts["hung" if "did not finish within" in text else "different"] += 1
        if text not in row.found:
            row.found.append(text)
    row.programs += counts["programs"]
    row.equal += counts["equal"]
    row.refused += counts["refused"]
    row.different += counts["different"]
    row.hung += counts["hung"]


def main() -> int:
    """Explore every kind, and return 1 if a program came out wrong."""
    from kinds import kinds

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=5.0, help="for all kinds together")
    parser.add_argument("--kinds", nargs="+", metavar="KIND", help="only these")
    parser.add_argument("--first", action="store_true", help="stop at the first program of a kind that differs")
    parser.add_argument("--json", type=Path, help="write the rows here, too")
    asked = parser.parse_args()
    with kinds() as known:
        if unknown := set(asked.kinds or []) - {kind.name for kind in known}:
            parser.error(f"there are the kinds {', '.join(kind.name for kind in known)}, not {', '.join(unknown)}")
        chosen = [kind for kind in known if not asked.kinds or kind.name in asked.kinds]
        print(LINE.format("kind", "seed", "programs", "equal", "refused", "different", "hung", "seconds"), flush=True)
        rows = []
        for kind in chosen:
            row = explore(kind, asked.seed, 60 * asked.minutes / len(chosen), first=asked.first)
            rows.append(asdict(row))
            counts = (row.programs, row.equal, row.refused, row.different, row.hung)
            print(LINE.format(row.kind, row.seed, *counts, row.seconds), flush=True)
            for text in row.found:
                print(text, flush=True)
            if asked.json:
                asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    return int(any(row["found"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
