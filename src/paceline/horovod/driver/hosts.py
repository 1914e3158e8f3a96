"""The hosts that an elastic job may use: a fixed list, or what a script prints."""

from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Mapping

from paceline.horovod.hosts import Slots, from_lines
from paceline.launch.run import say

PERIOD = 1.0
"""Seconds between two calls of the script, as in Horovod."""
_CALL_TIMEOUT = 30.0
"""Seconds that one call of the script may take."""
_MAX_OUTPUT = 1 << 20
"""Bytes of the script's output that are read."""


class Discovery:
    """Calls the script periodically in a thread of its own. `latest` holds the hosts that it printed last.

    command: the script and its arguments, split as a shell would; no shell runs them. slots: the slots of each host for
    which the script prints no number.

    Raises ValueError if the first call fails.
    """

    def __init__(self, command: str, slots: int | None, environment: Mapping[str, str]) -> None:
        self._argv = shlex.split(command)
        self._slots = slots
        self._environment = dict(environment)
        self._closing = threading.Event()
        self._trouble = ""
        if not self._argv:
            raise ValueError("--host-discovery-script needs the path of a program")
        self.latest: Slots = self._call()
        self._thread = threading.Thread(target=self._run, name="paceline-discovery", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop calling the script. A call in progress ends at its own timeout or with this process."""
        self._closing.set()

    def _run(self) -> None:
        while not self._closing.wait(PERIOD):
            try:
                self.latest = self._call()
                self._trouble = ""
            except ValueError as error:
                if str(error) != self._trouble and not self._closing.is_set():
                    self._trouble = str(error)
                    say(f"{error}; the hosts stay as they were")

    def _call(self) -> Slots:
        name = f"the host discovery script {self._argv[0]}"
        try:
            done = subprocess.run(
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                timeout=_CALL_TIMEOUT,
                env=self._environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"{name} took longer than {_CALL_TIMEOUT:g} s") from None
        except OSError as error:
            raise ValueError(f"cannot start {name}: {error.strerror}") from None
        if done.returncode:
            raise ValueError(f"{name} failed with code {done.returncode}")
        text = done.stdout[:_MAX_OUTPUT].decode(errors="replace")
        return from_lines(text.splitlines(), self._slots, f"{name} should print lines like host:2")


class FixedHosts:
    """The same hosts all the time."""

    def __init__(self, hosts: Slots) -> None:
        self.latest = hosts

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
