"""Several machines on one: network namespaces joined by veth pairs to a switch that lies in a namespace of its own.

Nothing is added to the host's own network: addresses, links and the switch exist inside the namespaces only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Self

_PREFIX = "paceline"
_COMMAND_SECONDS = 30.0


class Unavailable(Exception):
    """Namespaces can't be made here; the text says what is needed."""


class Machines:
    """`count` machines on one switched network with no rate limit. A context manager: it makes and removes them.

    names: the namespaces, as `ip netns` shows them: paceline-PID-TOKEN-NUMBER, PID being this process.
    addresses: one IPv4 address per machine, on its only `interface` besides loopback.
    Entering raises Unavailable, and removes what it had made, where root or iproute2 is missing.
    """

    interface = "eth0"

    def __init__(self, count: int) -> None:
        if not 1 <= count <= 250:
            raise ValueError(f"{count} machines were asked for; 1 to 250 can be made")
        self.count = count
        unique = f"{_PREFIX}-{os.getpid()}-{secrets.token_hex(3)}"
        self.names = [f"{unique}-{number}" for number in range(count)]
        self.addresses = [f"10.77.0.{number + 1}" for number in range(count)]
        self.switch = f"{unique}-switch"

    def exec(self, machine: int) -> list[str]:
        """The words that run the rest of a command line inside `machine`, as the same process."""
        return [_program() or "ip", "netns", "exec", self.names[machine]]

    def __enter__(self) -> Self:
        if _program() is None:
            raise Unavailable("network namespaces need the command `ip`; install the package iproute2.")
        if os.geteuid() != 0:
            raise Unavailable("network namespaces need root; run the command with sudo.")
        remove_abandoned()
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        for name in (self.switch, *self.names):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", self.switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self.switch, "link", "set", "switch", "up")
        for number, (name, address) in enumerate(zip(self.names, self.addresses, strict=True)):
            port = f"port{number}"
            pair = ("link", "add", port, "type", "veth", "peer", "name", self.interface, "netns", name)
            _ip("-n", self.switch, *pair)
            _ip("-n", self.switch, "link", "set", port, "master", "switch", "up")
            _ip("-n", name, "address", "add", f"{address}/24", "dev", self.interface)
            _ip("-n", name, "link", "set", self.interface, "up")

    def _remove(self) -> None:
        for name in (self.switch, *self.names):
            if name in existing():
                _ip("netns", "delete", name)


def existing() -> list[str]:
    """The names of all of this machine's named network namespaces."""
    return [line.split()[0] for line in _ip("netns", "list").splitlines() if line.strip()]


def remove_abandoned() -> list[str]:
    """Removes the namespaces of `Machines` whose process was killed before it could; returns their names."""
    removed = []
    for name in existing():
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == _PREFIX and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _ip("netns", "delete", name)
            removed.append(name)
    return removed


def _program() -> str | None:
    # Debian keeps it out of an ordinary user's PATH, and `su` keeps that PATH.
    return shutil.which("ip") or shutil.which("ip", path="/usr/sbin:/sbin")


def _ip(*arguments: str) -> str:
    done = subprocess.run([_program() or "ip", *arguments], capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise Unavailable(f"`ip {' '.join(arguments)}` failed: {reason}")
    return done.stdout
