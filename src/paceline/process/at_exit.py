"""Registers what this process does when it ends."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import partial
from multiprocessing import process

_WITHOUT_ATEXIT = ("fork", "forkserver")
"""The start methods of multiprocessing whose children run its own handlers at their end, and not those of atexit."""


def register(function: Callable[[], object]) -> Callable[[], None]:
    """Call `function` when this process ends, the last registered one first. Returns what takes this back."""
    if getattr(process.current_process(), "_start_method", None) in _WITHOUT_ATEXIT:
        from multiprocessing.util import Finalize

        return Finalize(None, function, exitpriority=0).cancel
    atexit.register(function)
    return partial(atexit.unregister, function)
