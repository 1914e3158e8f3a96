"""Starting a process on another host: ssh carries a command line that says nothing, and everything else on its stdin.

Over there `remote_main.py` reads what to run from stdin, runs it, and ends it when stdin ends: with this process, with
the connection, or because the job is over.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.launch import remote_main
from paceline.launch.job import LONGEST_MESSAGE, Command, wrapped

CONNECT_SECONDS = 10
_OF_THIS_HOST = frozenset(
    "HOME HOSTNAME HOST USER LOGNAME MAIL SHELL PWD OLDPWD SHLVL TERM DISPLAY XAUTHORITY TMPDIR TMP TEMP _ "
    "SSH_AUTH_SOCK SSH_AGENT_PID SSH_CLIENT SSH_CONNECTION SSH_TTY DBUS_SESSION_BUS_ADDRESS".split()
)
_OF_THIS_HOST_TOO = ("BASH_FUNC_", "XDG_")


@dataclass(frozen=True)
class Ssh:
    """How other hosts are reached. Authentication and host keys are as the user's own ssh has them."""

    port: int | None = None
    identity: str | None = None

    def command(self, host: str, argv: Sequence[str], env: Mapping[str, str], name: str, ranks: int) -> Command:
        """`argv` on `host`, in this directory if it is there, with what of `env` is not about this host.

        ranks: how many share that host's CPUs. ValueError if argv and environment together are too long.
        """
        said = {"argv": list(argv), "env": travelling(env), "cwd": str(Path.cwd()), "ranks": ranks}
        message = json.dumps(said).encode()
        if len(message) > LONGEST_MESSAGE:
            raise ValueError(f"the program's arguments and environment have {len(message)} bytes, too many for ssh")
        options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
        options += ["-o", "ServerAliveInterval=15"]
        if self.port is not None:
            options += ["-p", str(self.port)]
        if self.identity is not None:
            options += ["-i", self.identity]
        over_there = shlex.join([sys.executable, remote_main.__file__])
        ssh = wrapped(["ssh", *options, "--", host, over_there], death_signal=signal.SIGKILL, parent=os.getpid())
        return Command(ssh, os.environ, name, len(message).to_bytes(8, "big") + message)


def travelling(env: Mapping[str, str]) -> dict[str, str]:
    """What of an environment means the same on another host."""
    return {
        name: value
        for name, value in env.items()
        if name not in _OF_THIS_HOST and not name.startswith(_OF_THIS_HOST_TOO)
    }
