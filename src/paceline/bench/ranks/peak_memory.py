"""The most memory that this process has had since a moment, as Linux counts it."""

from __future__ import annotations

import ctypes
import gc
import re
from pathlib import Path

_SELF = Path("/proc/self")


def settled() -> int:
    """Return the resident bytes once what is free has gone back to the system; the peak counts from here on."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    (_SELF / "clear_refs").write_text("5")  # see proc_pid_clear_refs(5): it resets the peak
    return _field("VmRSS")


def peak() -> int:
    """Return the most resident bytes since `settled` was called."""
    return _field("VmHWM")


def _field(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", (_SELF / "status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"/proc/self/status has no {name}")
    return int(found[1]) << 10
