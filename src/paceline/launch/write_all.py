"""Writes the output of a job's processes."""

from __future__ import annotations

import os
import select


def write_all(target: int, data: bytes) -> None:
    """Write all of `data` to a descriptor, waiting for its reader. Returns silently if nobody reads it any more."""
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(target, view) :]
        except BlockingIOError:  # another process made this terminal or pipe non-blocking
            select.select([], [target], [])
        except OSError:
            return
