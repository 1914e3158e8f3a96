"""What this process does when it ends."""

from __future__ import annotations

import atexit
from collections.abc import Callable
from functools import partial
from multiprocessing import process

_WITHOUT_ATEXIT = ("fork", "forkserver")
"""Children that multiprocessing starts so end without atexit's handlers, only with its own."""


def register(function: Callable[[], object]) -> Callable[[], None]:
    """Call `function` when this process ends, the last registered first. Returns what takes that back."""
    if getattr(process.current_process(), "_start_method", None) in _WITHOUT_ATEXIT:
        from multiprocessing.util import Finalize

        return Finalize(None, function, exitpriority=0).cancel
    atexit.register(function)
    return partial(atexit.unregister, function)
