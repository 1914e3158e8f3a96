"""The memory that the machine and this process's control groups still allow, and that this process has."""

from __future__ import annotations

import math
import mmap
import re
from pathlib import Path
from typing import NamedTuple

from paceline.cpu.cgroup import Reader, cgroup_folders, read_file

_FILES = {1: ("memory.limit_in_bytes", "memory.usage_in_bytes"), 2: ("memory.max", "memory.current")}
"""The files with a control group's limit and use, by the version of control groups."""


class Available(NamedTuple):
    """Bytes that may be allocated without swapping: by all processes of the machine, and by those of the group."""

    machine: float
    group: float


def available_memory(read: Reader = read_file) -> Available:
    """Return what is available; `group` is infinite without a limit.

    In a control group, the pages of files that nobody uses now do not count as used: the kernel drops them.
    """
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", read("/proc/meminfo") or "", re.MULTILINE)
    least = math.inf
    for folder, version in cgroup_folders(read, "memory"):
        limit, used = (read(f"{folder}/{name}") or "" for name in _FILES[version])
        if limit.strip().isdigit() and used.strip().isdigit():
            idle = re.search(r"^(?:total_)?inactive_file (\d+)$", read(f"{folder}/memory.stat") or "", re.MULTILINE)
            least = min(least, max(0.0, int(limit) - int(used) + (int(idle[1]) if idle else 0)))
    return Available(float(int(found[1]) << 10) if found else 0.0, least)


def resident_bytes() -> int:
    """Return how much memory this process has now, free or not; see proc_pid_statm(5)."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
