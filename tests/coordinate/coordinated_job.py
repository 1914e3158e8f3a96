"""Ranks that run a program of this folder; and what those programs share."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.launch.local import LocalJob

HERE = Path(__file__).parent


def job(ranks: int, program: str, *arguments: str, output: Path, env: Mapping[str, str] | None = None) -> LocalJob:
    """A job of `ranks` processes of `program`, whose output goes to the folder `output`."""
    argv = [sys.executable, str(HERE / program), *arguments]
    return LocalJob(ranks, argv, {**os.environ, **(env or {})}, threads=1, output=output)


def run(
    ranks: int, program: str, *arguments: str, output: Path, deadline: float = 100, env: Mapping[str, str] | None = None
) -> None:
    """Run it to its end; fails with what the ranks wrote if one of them fails or time is up."""
    with job(ranks, program, *arguments, output=output, env=env) as running:
        try:
            code = running.wait(deadline)
        except TimeoutError as error:
            raise AssertionError(f"{error}\n{words(output)}") from None
    assert code == 0, words(output)


def words(output: Path) -> str:
    return "\n".join(f"{path.name}: {path.read_text()[-3000:]}" for path in sorted(output.iterdir()))


def joined(machines: str, policy: str, timeout: float = 60.0, **options: Any) -> tuple[Any, Any]:
    """In a rank: its group and a coordinator. `machines`: how ranks are spread over machines, as "0011"."""
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline
    from paceline.coordinate import Options, coordinator

    group = paceline.init(timeout=timeout)
    return group, coordinator(group, Options(policy=policy, **options))


def span(array: Any) -> Any:
    from paceline._engine import DTYPES
    from paceline.coordinate import Span

    return Span(array.ctypes.data, array.size, DTYPES[array.dtype.name])
