"""Check which user is at the other end of a Unix socket, by the kernel's word."""

from __future__ import annotations

import os


def same_user(uid: int, error: type[Exception]) -> None:
    """Raise `error` unless the other end runs as this process's user."""
    if uid != os.geteuid():
        raise error(
            f"it runs as user {uid}, this process as {os.geteuid()}: ranks that share memory run as one user "
            "(containers with different PACELINE_MACHINE names use TCP instead)"
        )
