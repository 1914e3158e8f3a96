"""Processes that tests started and that still run, known by a variable that they inherited."""

from __future__ import annotations

import os
import time

import psutil

MARK = "STARTED_BY_TESTS_OF"
GRACE = 20.0
"""Seconds that what was told to end gets to end."""
SERVERS = ("from multiprocessing", "warm_python.py")
"""In the commands of our children that last as long as we do: servers that fork, and the resource tracker."""


def mark() -> None:
    """Let processes that are started from now on inherit which run of the tests started them."""
    os.environ[MARK] = str(os.getpid())


def started_since(before: set[int]) -> list[psutil.Process]:
    """Processes of this run that are not in `before` and still run after a grace."""
    deadline = time.monotonic() + GRACE
    while left := [process for pid in set(psutil.pids()) - before if (process := _of_this_run(pid))]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return left


def describe(process: psutil.Process) -> str:
    """Its command and the test that it started in; its pid at least, when it ends meanwhile."""
    try:
        return f"{' '.join(process.cmdline())} (pid {process.pid}), of {process.environ().get('PYTEST_CURRENT_TEST')}"
    except psutil.Error:
        return f"pid {process.pid}"


def _of_this_run(pid: int) -> psutil.Process | None:
    try:
        process = psutil.Process(pid)
        ours = process.environ().get(MARK) == str(os.getpid()) and process.status() != psutil.STATUS_ZOMBIE
        server = process.ppid() == os.getpid() and any(name in " ".join(process.cmdline()) for name in SERVERS)
        if ours and not server:
            return process
    except psutil.Error:  # it has ended, or belongs to somebody else
        pass
    return None
