"""What `remote.py` runs on another host: one program, told on stdin, which does not outlive the connection.

    ssh HOST python remote_main.py < 8 bytes of length, JSON: argv, env, cwd, ranks; then nothing until it is to end

Where paceline is installed is known from this file's own place, so that it needs no variable.
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
"""Between SIGTERM and SIGKILL, once stdin has ended."""


def main() -> int:
    """Run what stdin says to its end; returns its exit code, 128 + n where a signal ended it."""
    from paceline.cpu.budget import available
    from paceline.launch.job import Command, Job, wrapped
    from paceline.launch.resources import plan_resources
    from paceline.launch.supervise import Signals, supervise
    from paceline.launch.tree import new_mark

    said = _read()
    if Path(said["cwd"]).is_dir():
        os.chdir(said["cwd"])
    environment = {**os.environ, **said["env"]}
    environment.update(plan_resources(said["ranks"], available(), environment).variables)
    program = wrapped(said["argv"], death_signal=signal.SIGKILL, parent=os.getpid())
    job = Job([Command(program, environment, "the program")], new_mark(environment), stdin=False)
    signals = Signals()
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        lifeline = _Lifeline(signals)
        selector.register(0, selectors.EVENT_READ, lifeline)
        with job:
            return supervise(job, selector, signals, lifeline, GRACE_SECONDS)


class _Lifeline:
    """Whoever started this holds the other end of stdin."""

    holding = listening = False

    def __init__(self, signals: Any) -> None:
        self._signals = signals

    def handle(self, key: selectors.SelectorKey) -> None:
        if not os.read(0, 4096) and not self._signals.received:
            self._signals.received.append(signal.SIGTERM)

    def release(self) -> None:
        """Nothing is held."""


def _read() -> dict[str, Any]:
    size = int.from_bytes(_exactly(8), "big")
    if size > 1 << 20:
        sys.exit("what came on stdin is not what paceline sends")
    said: dict[str, Any] = json.loads(_exactly(size))
    return said


def _exactly(size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            sys.exit("the connection ended before it was said what to run")
        data += part
    return data


if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[2])  # in place of this folder, whose names would hide others'
    sys.exit(main())
