"""Hosts and their slots, as horovodrun is told them."""

from __future__ import annotations

import re
import socket
from pathlib import Path

Slots = dict[str, int]
"""How many ranks each host takes, in the order in which they are filled."""


def from_text(text: str) -> Slots:
    """`host1:2,host2:4`. ValueError for anything else."""
    return _slots(re.split(r"\s*,\s*", text.strip()), r"([\w.-]+):([0-9]{1,6})", "-H should look like host1:2,host2:4")


def from_file(path: Path) -> Slots:
    """A file with a line `host slots=2` for each host. ValueError if there is none, or for another line."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ValueError(f"cannot read the host file {path}: {error.strerror}") from None
    written = [line.partition("#")[0].strip() for line in lines]
    words = f"the lines of {path} should look like `host slots=2`"
    return _slots([line for line in written if line], r"([\w.-]+)\s+slots=([0-9]{1,6})", words)


def needed_elsewhere(hosts: Slots, ranks: int) -> str | None:
    """The first host that is not this machine and gets one of so many ranks."""
    here = {"localhost", "127.0.0.1", socket.gethostname(), socket.gethostname().partition(".")[0], socket.getfqdn()}
    for host, slots in hosts.items():
        if ranks <= 0:
            return None
        if host not in here:
            return host
        ranks -= slots
    return None


def _slots(items: list[str], form: str, words: str) -> Slots:
    hosts: Slots = {}
    for item in items:
        match = re.fullmatch(form, item)
        if match is None:
            raise ValueError(f"{words}, got {item[:80]!r}")
        hosts[match[1]] = hosts.get(match[1], 0) + int(match[2])
    return hosts
