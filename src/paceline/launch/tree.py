"""Finds and ends everything that a job started: children, their children, and processes that detached themselves.

Each process of a job inherits a mark in its environment. A worker whose parent died first, or that opened a session of
its own, is no longer anybody's child, but it still carries the mark. One that has cleared its environment is found if
the job has a control group.
"""

import os
import secrets
import signal
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psutil

from paceline.launch.control_group import ControlGroup

MARK = "PACELINE_LAUNCH"
"""The environment variable that holds the mark."""
_POLL_SECONDS = 0.02
"""Seconds between two looks at processes that are ending."""


def new_mark(environ: Mapping[str, str]) -> str:
    """Return a mark for a new job. It extends the mark of the job that this process belongs to, if there is one."""
    own = secrets.token_hex(8)
    outer = environ.get(MARK)
    return f"{outer}:{own}" if outer else own


def members(mark: str, roots: Iterable[int], group: ControlGroup | None = None) -> set[psutil.Process]:
    """Return the living processes that descend from the pids `roots`, carry `mark` or are in `group`.

    The calling process is left out.
    """
    found: set[psutil.Process] = set()
    for pid in group.members() if group is not None else ():
        with suppress(psutil.Error):
            found.add(psutil.Process(pid))
    for pid in roots:
        try:
            root = psutil.Process(pid)
            found.update([root, *root.children(recursive=True)])
        except psutil.Error:
            continue
    for process in psutil.process_iter():
        try:
            carried = process.environ().get(MARK, "")
        except (psutil.Error, OSError):
            continue
        if carried == mark or carried.startswith(mark + ":"):
            found.add(process)
    return {process for process in found if process.pid != os.getpid() and alive(process)}


def alive(process: psutil.Process) -> bool:
    """Return whether the process runs. A zombie does not: its pid only waits for its parent."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def end(mark: str, roots: Iterable[int], grace: float, group: ControlGroup | None = None) -> list[int]:
    """End the whole tree, see `members`: SIGTERM, up to `grace` seconds of waiting, then SIGKILL.

    Returns the pids that survived SIGKILL: normally none, else processes stuck in the kernel or of another user.
    """
    roots = list(roots)
    remaining = members(mark, roots, group)
    if grace > 0:
        _signal(remaining, signal.SIGTERM)
        remaining = _wait(remaining, grace)
    # A killed process may have started another one between the search and the kill, so search until nothing is found.
    for _ in range(5):
        remaining |= members(mark, roots, group)
        if not remaining:
            return []
        _signal(remaining, signal.SIGKILL)
        remaining = _wait(remaining, 2.0)
    return sorted(process.pid for process in remaining)


def _signal(processes: Iterable[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        try:
            process.send_signal(number)
        except psutil.Error:
            continue


def _wait(processes: set[psutil.Process], seconds: float) -> set[psutil.Process]:
    deadline = time.monotonic() + seconds
    remaining = {process for process in processes if alive(process)}
    while remaining and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
        remaining = {process for process in remaining if alive(process)}
    return remaining
