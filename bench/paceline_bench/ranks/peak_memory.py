"""The most memory that this process has had since a moment, as Linux counts it, and what of that is of others."""

from __future__ import annotations

import ctypes
import gc
import re
from collections import Counter
from pathlib import Path

_SELF = Path("/proc/self")
_MAPPING = re.compile(r"(?P<begin>[0-9a-f]+)-(?P<end>[0-9a-f]+) \S+ \S+ (?P<file>.*)")
"""A line of smaps that begins a mapping; file: its device, number and name."""
_ARENA = "/memfd:paceline-arena (deleted)"


def settled() -> int:
    """Return the resident bytes once what is free has gone back to the system; the peak counts from here on."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (_SELF / "clear_refs").write_text("5")  # see proc_pid_clear_refs(5): it resets the peak
    return _field("VmRSS")


def peak() -> int:
    """Return the most resident bytes since `settled` was called."""
    return _field("VmHWM")


def of_others(own: int) -> int:
    """Return the resident bytes of other ranks' arenas, which Linux counts here, too. own: an address of one's own."""
    resident, mine, file = Counter[str](), "", ""
    for line in (_SELF / "smaps").read_text().splitlines():
        if mapping := _MAPPING.match(line):
            file = mapping["file"]
            if int(mapping["begin"], 16) <= own < int(mapping["end"], 16):
                mine = file
        elif line.startswith("Rss:") and file.endswith(_ARENA):
            resident[file] += int(line.split()[1]) << 10
    return resident.total() - resident[mine]


def _field(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", (_SELF / "status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {name}")
    return int(found[1]) << 10
