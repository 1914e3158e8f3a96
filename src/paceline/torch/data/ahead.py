"""How many batches may be ready before they are needed: as many as memory is for."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from paceline.calibration.torch import MEMORY_SHARE, MOST_AHEAD

_CGROUP = Path("/sys/fs/cgroup")


def batches_ahead(nbytes: int) -> int:
    """Return how many batches of nbytes may be ready before the slowest rank takes them, 1 to MOST_AHEAD."""
    return max(1, min(MOST_AHEAD, available_memory() // MEMORY_SHARE // max(1, nbytes)))


def available_memory() -> int:
    """Return the bytes that may be allocated without swapping, by the machine and by this process's cgroups."""
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    least = int(found[1]) << 10 if found else 0
    own = re.search(r"^0::/(.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    group = _CGROUP / own[1] if own else _CGROUP
    for folder in (group, *group.parents):
        with suppress(OSError, ValueError):  # no such file, or "max"
            limit = int((folder / "memory.max").read_text())
            least = min(least, max(0, limit - int((folder / "memory.current").read_text())))
        if folder == _CGROUP:
            break
    return least
