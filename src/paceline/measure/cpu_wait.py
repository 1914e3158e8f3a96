"""How long a process waits for a core, by the kernel's own count."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_THREADS = Path("/proc/self/task")


def waited_seconds() -> float:
    """Seconds that the threads this process has now were ready to run while others ran; 0 where the kernel counts none.

    See Linux, Documentation/scheduler/sched-stats.rst, /proc/<pid>/schedstat.
    """
    waited = 0
    for thread in _THREADS.iterdir():
        with suppress(OSError):  # it has ended
            waited += int((thread / "schedstat").read_text().split()[1])
    return waited * 1e-9
