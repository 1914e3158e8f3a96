"""The time that a process waits for a core, by the kernel's own count."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")


def waited_seconds() -> float:
    """Return the seconds for which this process's present threads were ready to run while others ran.

    The result is 0 where the kernel does not count them. Source: Linux, Documentation/scheduler/sched-stats.rst, on
    /proc/<pid>/schedstat.
    """
    waited = 0
    for thread in _THREADS.iterdir():
        with suppress(OSError):  # the thread has ended
            waited += int((thread / "schedstat").read_text().split()[1])
    return waited * 1e-9
