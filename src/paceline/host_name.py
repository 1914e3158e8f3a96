"""The name of this machine."""

from __future__ import annotations

import socket


def host_name() -> str:
    """Return the host name, in which bytes that are not UTF-8 are written as in caf\\xe9."""
    return socket.gethostname().encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
