"""What runs of other projects' test suites have in common: outcomes, and the tests that do not apply, with reasons.

A file skips.toml lists every test that does not run on Paceline. A skip that is not listed is a failure; a listed test
that passes gives a warning.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Outcome:
    name: str
    state: str
    """passed, failed or skipped"""
    detail: str
    seconds: float


@dataclass(frozen=True)
class Skip:
    reason: str
    run: bool
    """Whether to see if the suite itself still skips it; False for a test that cannot pass and is not skipped there."""


@dataclass(frozen=True)
class Skips:
    """The entries of a skips.toml: names of tests, or patterns of names as a shell has them."""

    file: Path
    entries: dict[str, Skip]

    def of(self, name: str) -> Skip | None:
        exact = self.entries.get(name)
        matching = (skip for pattern, skip in self.entries.items() if fnmatchcase(name, pattern))
        return exact or next(matching, None)

    def unused(self, available: Collection[str]) -> list[str]:
        """The entries that no test of the suite has."""
        return sorted(pattern for pattern in self.entries if not any(fnmatchcase(name, pattern) for name in available))

    def judge(self, outcome: Outcome) -> Outcome:
        """A skip without a reason is a failure; a reason without a skip is out of date."""
        skip = self.of(outcome.name)
        if outcome.state == "skipped" and skip is None:
            detail = f"{outcome.name} was skipped ({outcome.detail}) and {self.file.name} gives no reason"
            return Outcome(outcome.name, "failed", detail, outcome.seconds)
        if outcome.state == "passed" and skip is not None:
            print(f"warning: {outcome.name} runs, its entry in {self.file.name} is out of date")
        return outcome


def read_skips(file: Path) -> Skips:
    entries: dict[str, Skip] = {}
    for group in tomllib.loads(file.read_text())["skip"]:
        for name in group["tests"]:
            if name in entries:
                raise SystemExit(f"{file.name} lists {name} twice")
            entries[name] = Skip(group["reason"], group.get("run", True))
    return Skips(file, entries)


def show(outcome: Outcome, failures_only: bool) -> None:
    if outcome.state == "failed":
        print(outcome.detail, flush=True)
    if outcome.state != "passed" or not failures_only:
        print(f"{outcome.state:8} {outcome.seconds:6.1f} s  {outcome.name}", flush=True)


def conclude(outcomes: Sequence[Outcome]) -> int:
    """Print how many tests passed, failed and were skipped; return the exit code."""
    counts = {state: sum(o.state == state for o in outcomes) for state in ("passed", "failed", "skipped")}
    print(", ".join(f"{count} {state}" for state, count in counts.items()))
    return 1 if counts["failed"] else 0
