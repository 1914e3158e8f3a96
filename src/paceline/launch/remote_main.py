"""Runs on another host for `remote.py`: it executes one program, described on stdin, that does not outlive the
connection.

    ssh HOST python remote_main.py < 8 bytes of length, JSON: argv, env, cwd, ranks; then nothing until the end

This file's own location says where paceline is installed, so that no variable is needed.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
from pathlib import Path
from typing import Any

GRACE_SECONDS = 5.0
"""Seconds between SIGTERM and SIGKILL once stdin has ended."""


def main() -> int:
    """Run the program described on stdin to its end. Returns its exit code, 128 + n if signal n ended it."""
    from paceline.cpu.budget import available
    from paceline.launch.job import Command, Job, wrapped
    from paceline.launch.kept import kept
    from paceline.launch.resources import plan_resources
    from paceline.launch.supervise import Signals, supervise
    from paceline.launch.tree import new_mark

    request = _read()
    if Path(request["cwd"]).is_dir():
        os.chdir(request["cwd"])
    environment = {**os.environ, **request["env"]}
    environment.update(plan_resources(request["ranks"], available(), environment).variables)
    program = wrapped(request["argv"], death_signal=signal.SIGKILL, parent=os.getpid())
    job = Job([Command(program, environment, "the program")], new_mark(environment), stdin=False)
    signals = Signals()
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        lifeline = _Lifeline(signals)
        selector.register(0, selectors.EVENT_READ, lifeline)
        with kept(job), job:
            return supervise(job, selector, signals, lifeline, GRACE_SECONDS)


class _Lifeline:
    """A `Listener` for the end of stdin, whose other end the launcher holds: it asks for the end of the job."""

    holding = False
    relay = None

    def __init__(self, signals: Any) -> None:
        self._signals = signals

    def handle(self, key: selectors.SelectorKey) -> None:
        if not os.read(0, 4096) and not self._signals.received:
            self._signals.received.append(signal.SIGTERM)

    def release(self) -> None:
        """Do nothing: no output is held back."""


def _read() -> dict[str, Any]:
    size = int.from_bytes(_exactly(8), "big")
    if size > 1 << 20:
        sys.exit("stdin does not hold a message of paceline's launcher")
    request: dict[str, Any] = json.loads(_exactly(size))
    return request


def _exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit("the connection ended before the program to run was received")
        data += part
    return data


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # replaces this folder, whose module names would hide others
    sys.exit(main())
