"""The source line of user code that a thread executes."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import FrameType

from paceline._engine import current_frames

_LIBRARIES = ("paceline", "torch")


def users_line(thread: int | None = None) -> str:
    """The file and line of the innermost frame of user code, as "train.py:88"; "" if the thread has no such frame.

    thread: the thread's `threading.get_ident()`; None: the main thread.
    """
    ident = threading.main_thread().ident if thread is None else thread
    frame: FrameType | None = current_frames().get(ident or 0)
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in _LIBRARIES:
        frame = frame.f_back
    if frame is None:
        return ""
    path = frame.f_code.co_filename
    with contextlib.suppress(OSError):  # the current folder may be gone
        path = path.removeprefix(f"{Path.cwd()}/")
    return f"{path}:{frame.f_lineno}"
