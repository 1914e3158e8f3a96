"""Elastic jobs as their users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

DEADLINE = 250.0
"""Seconds for a job, unless a test gives it more."""


@contextmanager
def started(
    folder: Path, *arguments: str, timeout: float = 20.0, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The launcher; its output goes to FOLDER/out and FOLDER/err. It has ended when the context is left."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOROVOD_")}
    limits = {"PACELINE_TIMEOUT": str(timeout), "PACELINE_START_TIMEOUT": "60"}
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        launcher = subprocess.Popen(
            [sys.executable, "-m", "paceline.horovod.run", *arguments],
            stdout=out,
            stderr=err,
            env=environment | limits | variables,
        )
    try:
        yield launcher
    finally:
        launcher.send_signal(signal.SIGTERM)
        try:
            launcher.wait(timeout=DEADLINE)
        finally:
            launcher.kill()


def run(
    folder: Path, *arguments: str, timeout: float = 20.0, deadline: float = DEADLINE, **variables: str
) -> tuple[int, str, str]:
    with started(folder, *arguments, timeout=timeout, **variables) as launcher:
        code = launcher.wait(timeout=deadline)
    return code, (folder / "out").read_text(), said(folder)


def said(folder: Path) -> str:
    return (folder / "err").read_text()


def nothing_runs(folder: Path) -> bool:
    return not [p for p in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or [])]


def wait_until(true: Callable[[], bool], deadline: float = DEADLINE) -> None:
    end = time.monotonic() + deadline
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)
