"""Ends a rank whose torchrun was killed, as ranks of `paceline run` end with it."""

from __future__ import annotations

import os
import signal

from paceline.launch.child import die_with_parent
from paceline.settings.settings import Settings


def end_with_torchrun(settings: Settings) -> None:
    """Ask the kernel to send SIGTERM, by which torchrun itself ends ranks, when torchrun dies.

    This is done only in the process that torchrun started, which leads the session that torchrun makes for each rank.
    A rank that a script of the user starts has that script as its parent.
    """
    if settings.launcher == "torchrun" and os.getsid(0) == os.getpid():
        die_with_parent(signal.SIGTERM)
