"""Makes, enters, empties and removes named network namespaces with the commands `ip` and `tc`.

Nothing is added to the host's own network: addresses, links and switches exist only inside the namespaces. This file is
also a program, see `Guard`: python -I -S namespaces.py PREFIX. It therefore imports the standard library only.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

_PREFIX = "paceline"
_COMMAND_SECONDS = 30.0
"""Seconds that one command may take."""
_GRACE_SECONDS = 1.0
"""Seconds for processes in the namespaces of a killed process to end; the kernel has sent them a signal."""

# A machine has a host name and finds the others by theirs. Both last as long as the process and its children. The file
# lies in memory that only they see, on a mount that hides the list of namespaces for that moment.
_ENTER = """set -e
echo "$0" > /proc/sys/kernel/hostname
mount -t tmpfs tmpfs /run/netns
printf '127.0.0.1 localhost\\n%s\\n' "$1" > /run/netns/hosts
mount --bind /run/netns/hosts /etc/hosts
umount -l /run/netns
shift
exec "$@"
"""


class Unavailable(Exception):
    """A lab cannot be made here; the text says what is needed."""


def new_prefix() -> str:
    """Return the prefix for the names of new namespaces: paceline-PID-TOKEN, where PID is this process."""
    return f"{_PREFIX}-{os.getpid()}-{secrets.token_hex(3)}"


def require() -> None:
    """Raise Unavailable if namespaces cannot be made here."""
    if os.geteuid() != 0:
        raise Unavailable("a lab makes network namespaces, which needs root; run the command with sudo.")
    for command, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux"), ("mount", "mount")):
        if program(command) is None:
            raise Unavailable(f"a lab needs the command `{command}`; install the package {package}.")


def enter(namespace: str, host: str, hosts: str) -> list[str]:
    """Return the words that run the rest of a command line in `namespace`, as the same process.

    host: the machine's host name. hosts: the lines of /etc/hosts after the one for localhost.
    """
    inside = [program("unshare") or "unshare", "--uts", "sh", "-c", _ENTER, host, hosts]
    return [program("ip") or "ip", "netns", "exec", namespace, *inside]


def check_entrance(words: Sequence[str]) -> None:
    """Raise Unavailable unless `words`, as `enter` returns them, run a command in their namespace.

    In a chroot, namespaces can be made and not be entered.
    """
    _output([*words, "true"], "a command in a namespace")


def existing() -> list[str]:
    """Return the names of all named network namespaces of this machine."""
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()]


def delete(namespaces: Sequence[str]) -> None:
    """Kill every process in these namespaces, and remove those of them that exist. Raises Unavailable if that fails."""
    for name in set(namespaces) & set(existing()):
        try:
            for pid in ip("netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip("netns", "delete", name)
        except Unavailable:
            if name in existing():  # otherwise another lab that is starting removed it first
                raise


def remove_abandoned() -> list[str]:
    """Remove the namespaces of killed Paceline processes, and whatever runs in them. Returns their names."""
    abandoned = []
    for name in existing():
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == _PREFIX and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            abandoned.append(name)
    delete(abandoned)
    return abandoned


def remove_when_orphaned(prefix: str) -> None:
    """Wait for the end of the standard input, then remove all namespaces whose names begin with `prefix`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    while left := [name for name in existing() if name.startswith(f"{prefix}-")]:
        time.sleep(_GRACE_SECONDS)  # also lets a namespace that is being made appear
        delete(left)


def ip(*arguments: str, given: str = "") -> str:
    """Run `ip` with `given` as its input, and return its output. Raises Unavailable with its error message."""
    return _run("ip", arguments, given)


def tc(*arguments: str) -> str:
    """Run `tc`, and return its output. Raises Unavailable with its error message."""
    return _run("tc", arguments)


def program(name: str) -> str | None:
    """Return the path of a system command, None if it is missing."""
    # Debian keeps some commands out of an ordinary user's PATH, and `su` keeps that PATH.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _run(command: str, arguments: tuple[str, ...], given: str = "") -> str:
    return _output([program(command) or command, *arguments], f"`{' '.join((command, *arguments))}`", given)


def _output(words: Sequence[str], what: str, given: str = "") -> str:
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise Unavailable(f"{what} failed: {reason}")
    return done.stdout


if __name__ == "__main__":
    remove_when_orphaned(sys.argv[1])
