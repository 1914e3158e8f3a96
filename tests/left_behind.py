"""Processes that tests started and that still run, known by a variable that they inherited."""

from __future__ import annotations

import os
import time

import psutil

MARK = "STARTED_BY_TESTS_OF"
GRACE = 20.0
"""Seconds that what was told to end gets to end."""
SERVERS = set[int]()
"""The pids of processes that fork others, and last as long as this one."""
_OF_THE_LIBRARY = "from multiprocessing"
"""In the commands of our children that last as long as we do: Python's own servers that fork, and resource tracker."""


def mark() -> None:
    """Let processes that are started from now on inherit which run of the tests started them."""
    os.environ[MARK] = as_marked(os.getpid())


def as_marked(pid: int) -> str:
    """The mark of the run of the process `pid`, as long as all others: warm_python.py writes one over another."""
    return f"{pid:010}"


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
        ours = process.environ().get(MARK) == as_marked(os.getpid()) and process.status() != psutil.STATUS_ZOMBIE
        server = process.ppid() == os.getpid() and _OF_THE_LIBRARY in " ".join(process.cmdline())
        if ours and not server and pid not in SERVERS:
            return process
    except psutil.Error:  # it has ended, or belongs to somebody else
        pass
    return None
