"""The hosts that an elastic job may use: a fixed list, or what a script prints."""

from __future__ import annotations

import os
import select
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping

from paceline.horovod.hosts import Slots, from_lines
from paceline.launch.run import say

PERIOD = 1.0
"""Seconds between two calls of the script, as in Horovod."""
_CALL_TIMEOUT = 30.0
"""Seconds that one call of the script may take."""
_MAX_OUTPUT = 1 << 20
"""Bytes that the script may print."""


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
        if not self.latest:
            say(f"the host discovery script {self._argv[0]} prints no host yet; it should print lines like host:2")
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
            process = subprocess.Popen(
                self._argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=self._environment
            )
        except OSError as error:
            raise ValueError(f"cannot start {name}: {error.strerror}") from None
        with process:
            try:
                data = _read(process, time.monotonic() + _CALL_TIMEOUT)
            except subprocess.TimeoutExpired:
                raise ValueError(f"{name} took longer than {_CALL_TIMEOUT:g} s") from None
            finally:
                process.kill()
        if len(data) > _MAX_OUTPUT:
            raise ValueError(f"{name} printed more than {_MAX_OUTPUT >> 10} KiB")
        if process.returncode:
            raise ValueError(f"{name} failed with code {process.returncode}")
        text = data.decode(errors="replace")
        return from_lines(text.splitlines(), self._slots, f"{name} should print lines like host:2")


def _read(process: subprocess.Popen[bytes], end: float) -> bytes:
    """Return what the process prints until it ends, or until that is too much. Raises TimeoutExpired at `end`."""
    assert process.stdout is not None
    data = b""
    while len(data) <= _MAX_OUTPUT:
        left = end - time.monotonic()
        if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
            raise subprocess.TimeoutExpired(process.args, _CALL_TIMEOUT)
        part = os.read(process.stdout.fileno(), _MAX_OUTPUT)
        if not part:
            process.wait(max(0.0, end - time.monotonic()))
            break
        data += part
    return data


class FixedHosts:
    """The same hosts all the time."""

    def __init__(self, hosts: Slots) -> None:
        self.latest = hosts

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
