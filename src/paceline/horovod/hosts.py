"""Parses the hosts and slots that horovodrun accepts, and finds the address at which hosts reach this one."""

from __future__ import annotations

import argparse
import re
import socket
from collections.abc import Iterable
from pathlib import Path

Slots = dict[str, int]
"""The number of ranks that each host takes, in the order in which the hosts are filled."""

_HOST = r"(\w[\w.-]*)"  # never begins with a dash, which ssh would take as an option
_SLOTS = r"([0-9]{1,6})"


def from_text(text: str) -> Slots:
    """Parse `host1:2,host2:4`. Raises ValueError for anything else."""
    return _slots(re.split(r"\s*,\s*", text.strip()), f"{_HOST}:{_SLOTS}", "-H should look like host1:2,host2:4")


def from_file(path: Path) -> Slots:
    """Parse a file with a line `host slots=2` for each host.

    Raises ValueError for an unreadable file or any other line.
    """
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ValueError(f"cannot read the host file {path}: {error.strerror}") from None
    words = f"the lines of {path} should look like `host slots=2`"
    return _slots(_written(lines), rf"{_HOST}\s+slots={_SLOTS}", words)


def from_lines(lines: Iterable[str], slots: int | None, words: str) -> Slots:
    """Parse lines `host:2`, or lines `host` where `slots` is the number of slots of each such host.

    Raises ValueError for any other line; its message begins with `words`.
    """
    if slots is None:
        return _slots(_written(lines), f"{_HOST}:{_SLOTS}", words)
    return _slots([line if ":" in line else f"{line}:{slots}" for line in _written(lines)], f"{_HOST}:{_SLOTS}", words)


def is_here(host: str) -> bool:
    """Return whether this is a name of this machine."""
    return host in {
        "localhost",
        "127.0.0.1",
        socket.gethostname(),
        socket.gethostname().partition(".")[0],
        socket.getfqdn(),
    }


def placed(hosts: Slots, ranks: int) -> list[str]:
    """Return the host of each of the `ranks` ranks, which fill the slots in order."""
    return [host for host, slots in hosts.items() for _ in range(slots)][:ranks]


def elsewhere(hosts: Slots, ranks: int) -> list[str]:
    """Return the hosts other than this machine that get at least one of the `ranks` ranks."""
    return [host for host in dict.fromkeys(placed(hosts, ranks)) if not is_here(host)]


def _written(lines: Iterable[str]) -> list[str]:
    return [text for line in lines if (text := line.partition("#")[0].strip())]


def _slots(items: list[str], form: str, words: str) -> Slots:
    hosts: Slots = {}
    for item in items:
        match = re.fullmatch(form, item)
        if match is None:
            raise ValueError(f"{words}, got {item[:80]!r}")
        hosts[match[1]] = hosts.get(match[1], 0) + int(match[2])
    return hosts


def own_address(options: argparse.Namespace, towards: str | None) -> str:
    """Return the address at which other hosts reach this machine.

    towards: a host whose route decides, if no interface was asked for.

    Raises RendezvousError if there is no such address.
    """
    from paceline.rendezvous import interfaces

    wish = ",".join(options.nics) if options.nics else None
    choice = interfaces.choose(interfaces.addresses(), wish, towards, True)
    interfaces.report(choice, "the launcher")
    return choice.address
