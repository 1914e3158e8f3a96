"""Starts a process on another host over ssh. The command line says nothing about the job; everything is sent on stdin.

On the other host `remote_main.py` reads the program to run from stdin, runs it, and ends it when stdin ends: because
this process ended, the connection broke, or the job is over.
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
"""Seconds that ssh may take to connect."""
_HOST_VARIABLES = frozenset(
    "HOME HOSTNAME HOST USER LOGNAME MAIL SHELL PWD OLDPWD SHLVL TERM DISPLAY XAUTHORITY TMPDIR TMP TEMP _ "
    "SSH_AUTH_SOCK SSH_AGENT_PID SSH_CLIENT SSH_CONNECTION SSH_TTY DBUS_SESSION_BUS_ADDRESS".split()
)
_HOST_PREFIXES = ("BASH_FUNC_", "XDG_")


@dataclass(frozen=True)
class Ssh:
    """The ssh access to other hosts. The user's own ssh configuration decides authentication and host keys.

    port: the port of the hosts' ssh servers. identity: the path of a private key.
    """

    port: int | None = None
    identity: str | None = None

    def command(self, host: str, argv: Sequence[str], env: Mapping[str, str], name: str, ranks: int) -> Command:
        """Return the command that runs `argv` on `host`, in the present directory if it exists there.

        env: the environment; variables that describe this host are not sent. ranks: the number of ranks that share that
        host's CPUs.

        Raises ValueError if arguments and environment together are too long.
        """
        job = {"argv": list(argv), "env": travelling(env), "cwd": str(Path.cwd()), "ranks": ranks}
        message = json.dumps(job).encode()
        if len(message) > LONGEST_MESSAGE:
            raise ValueError(f"the program's arguments and environment have {len(message)} bytes, too many for ssh")
        options = ["-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={CONNECT_SECONDS}"]
        options += ["-o", "ServerAliveInterval=15"]
        if self.port is not None:
            options += ["-p", str(self.port)]
        if self.identity is not None:
            options += ["-i", self.identity]
        remote_command = shlex.join([sys.executable, remote_main.__file__])
        ssh = wrapped(["ssh", *options, "--", host, remote_command], death_signal=signal.SIGKILL, parent=os.getpid())
        return Command(ssh, os.environ, name, len(message).to_bytes(8, "big") + message)


def travelling(env: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an environment that mean the same on another host."""
    return {
        name: value
        for name, value in env.items()
        if name not in _HOST_VARIABLES and not name.startswith(_HOST_PREFIXES)
    }
