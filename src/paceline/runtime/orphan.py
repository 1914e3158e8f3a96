"""A rank whose torchrun is killed ends too, as one of `paceline run` does."""

from __future__ import annotations

import os
import signal

from paceline.launch.child import die_with_parent
from paceline.settings.settings import Settings


def end_with_torchrun(settings: Settings) -> None:
    """Ask the kernel for SIGTERM, which is how torchrun itself ends ranks, when torchrun dies.

    Only in the process that torchrun started: it leads the session that torchrun makes for each rank. A rank that a
    script of the user's starts has that script for a parent.
    """
    if settings.launcher == "torchrun" and os.getsid(0) == os.getpid():
        die_with_parent(signal.SIGTERM)
