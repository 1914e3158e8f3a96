"""Jobs of ranks that run a program of a test's folder, without torch."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from paceline.launch.local import LocalJob

PROGRAMS = Path(__file__).with_name("programs")
"""What ranks of several rooms' tests run."""


def job(ranks: int, program: Path, *arguments: str, output: Path, env: Mapping[str, str] | None = None) -> LocalJob:
    """A job of `ranks` processes of `program`, whose output goes to the folder `output`."""
    argv = [sys.executable, str(program), *arguments]
    return LocalJob(ranks, argv, {**os.environ, **(env or {})}, threads=1, output=output)


def run(
    ranks: int,
    program: Path,
    *arguments: str,
    output: Path,
    deadline: float = 250,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run it to its end; fails with what the ranks wrote if one of them fails or time is up."""
    with job(ranks, program, *arguments, output=output, env=env) as running:
        try:
            code = running.wait(deadline)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{words(output)}") from None
    assert code == 0, words(output)


def words(output: Path) -> str:
    """The end of what each rank wrote."""
    return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in sorted(output.iterdir()))
