"""Named network namespaces: made, entered, emptied and removed with the commands `ip` and `tc`.

Nothing is added to the host's own network: addresses, links and switches exist inside the namespaces only.
Also a program, see `Guard`: python -I -S namespaces.py PREFIX; so it imports the standard library only.
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
_GRACE_SECONDS = 1.0
"""For what runs in namespaces whose maker was killed: the kernel has told it to end."""

# A machine has a name of its own and finds the others by theirs. Both last as long as the process and its children;
# the file lies in memory that only they see, under what hides the list of namespaces for that moment.
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
    """A lab can't be made here; the text says what is needed."""


def new_prefix() -> str:
    """What the names of the next namespaces begin with: paceline-PID-TOKEN, PID being this process."""
    return f"{_PREFIX}-{os.getpid()}-{secrets.token_hex(3)}"


def require() -> None:
    """Raises Unavailable where namespaces can't be made."""
    for command, package in (("ip", "iproute2"), ("tc", "iproute2"), ("unshare", "util-linux"), ("mount", "mount")):
        if program(command) is None:
            raise Unavailable(f"a lab needs the command `{command}`; install the package {package}.")
    if os.geteuid() != 0:
        raise Unavailable("a lab makes network namespaces, which needs root; run the command with sudo.")


def enter(namespace: str, host: str, hosts: str) -> list[str]:
    """The words that run the rest of a command line in `namespace`, as the same process.

    host: the machine's name there. hosts: the lines of /etc/hosts that follow localhost.
    """
    inside = [program("unshare") or "unshare", "--uts", "sh", "-c", _ENTER, host, hosts]
    return [program("ip") or "ip", "netns", "exec", namespace, *inside]


def existing() -> list[str]:
    """The names of all of this machine's named network namespaces."""
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line.strip()]


def delete(namespaces: Sequence[str]) -> None:
    """Ends every process that is still in these namespaces, and removes those of them that exist."""
    for name in set(namespaces) & set(existing()):
        try:
            for pid in ip("netns", "pids", name).split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            ip("netns", "delete", name)
        except Unavailable:
            if name in existing():  # else another lab that starts now was faster
                raise


def remove_abandoned() -> list[str]:
    """Removes what a killed process of ours left: its namespaces and whatever runs in them; returns their names."""
    abandoned = []
    for name in existing():
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == _PREFIX and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            abandoned.append(name)
    delete(abandoned)
    return abandoned


def remove_when_orphaned(prefix: str) -> None:
    """Waits for the end of the standard input, then removes all namespaces whose names begin with `prefix`."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    while left := [name for name in existing() if name.startswith(f"{prefix}-")]:
        time.sleep(_GRACE_SECONDS)  # also for one that is just being made
        delete(left)


def ip(*arguments: str, given: str = "") -> str:
    """What `ip` prints, with `given` as its input; raises Unavailable with its complaint."""
    return _output("ip", arguments, given)


def tc(*arguments: str) -> str:
    """What `tc` prints; raises Unavailable with its complaint."""
    return _output("tc", arguments)


def program(name: str) -> str | None:
    """Where a system command is, None if it is missing."""
    # Debian keeps some out of an ordinary user's PATH, and `su` keeps that PATH.
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _output(command: str, arguments: tuple[str, ...], given: str = "") -> str:
    words = [program(command) or command, *arguments]
    done = subprocess.run(words, input=given, capture_output=True, text=True, timeout=_COMMAND_SECONDS)
    if done.returncode:
        reason = done.stderr.strip() or f"exit code {done.returncode}"
        raise Unavailable(f"`{command} {' '.join(arguments)}` failed: {reason}")
    return done.stdout


if __name__ == "__main__":
    remove_when_orphaned(sys.argv[1])
