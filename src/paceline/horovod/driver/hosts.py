"""Which hosts an elastic job may use: the same ones all the time, or what a script prints."""

from __future__ import annotations

import shlex
import subprocess
import threading
from collections.abc import Mapping

from paceline.horovod.hosts import Slots, from_lines
from paceline.launch.run import say

PERIOD = 1.0
"""Seconds between two calls of the script, as Horovod has it."""
_LONGEST_CALL = 30.0
_LONGEST_OUTPUT = 1 << 20


class Discovery:
    """Calls the script again and again in a thread of its own. `latest` is what it printed last.

    command: the script and its arguments, as one would write them in a shell; none is used.
    slots: of a host for which the script prints none. Raises ValueError if the first call fails.
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
        self._thread = threading.Thread(target=self._go_on, name="paceline-discovery", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more. A call that is under way ends within its own limit, or with this process."""
        self._closing.set()

    def _go_on(self) -> None:
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
                timeout=_LONGEST_CALL,
                env=self._environment,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ValueError(f"{name} took longer than {_LONGEST_CALL:g} s") from None
        except OSError as error:
            raise ValueError(f"cannot start {name}: {error.strerror}") from None
        if done.returncode:
            raise ValueError(f"{name} failed with code {done.returncode}")
        text = done.stdout[:_LONGEST_OUTPUT].decode(errors="replace")
        return from_lines(text.splitlines(), self._slots, f"{name} should print lines like host:2")


class FixedHosts:
    """The same hosts all the time."""

    def __init__(self, hosts: Slots) -> None:
        self.latest = hosts

    def close(self) -> None:
        """Nothing to close."""
