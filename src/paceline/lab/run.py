"""`paceline lab` runs one command on every machine of a lab and supervises it to its end."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO

from paceline.lab.lab import Lab
from paceline.lab.output import Labelled, say
from paceline.launch import tree
from paceline.launch.job import UNBUFFERED, Command, Job, wrapped
from paceline.launch.kept import kept
from paceline.launch.supervise import TIMED_OUT, Signals, finish, supervise

_GRACE_SECONDS = 10.0
"""Seconds that the machines have to end after a signal."""
_PIPE = subprocess.PIPE


def run(
    lab: Lab, command: Sequence[str], environ: Mapping[str, str], timeout: float, conclude: Callable[[], None]
) -> int:
    """Run `command` on every machine of a lab that was entered, and return the exit code to leave with.

    environ: the environment that the machines inherit. timeout: seconds after which all machines are ended. conclude:
    prints what else is to be said at the end.

    The first machine reads this process's standard input. The code is that of the first machine that failed (128 + n
    for signal n), or 124 after the timeout. Every process that the machines started has ended when it returns; if this
    process is killed, the kernel sends them SIGTERM, and what they have started ends, too.
    """
    signals = Signals()
    with selectors.DefaultSelector() as selector, signals.watched(selector):
        output = Labelled(selector, [machine.host for machine in lab.machines])
        try:
            with output.relay.spoken():
                job = Job(_commands(lab, command, environ), tree.new_mark(environ), stdout=_PIPE, stderr=_PIPE)
                with kept(job), job:
                    for process, machine in zip(job.processes, lab.machines, strict=True):
                        for pipe, target in ((process.stdout, 1), (process.stderr, 2)):
                            output.listen_to(_taken(pipe), machine.host, target)
                    code = supervise(job, selector, signals, output, _GRACE_SECONDS, timeout)
                output.close()
                if code == TIMED_OUT:
                    say(f"stopped after {timeout:g} s; --timeout allows more")
                elif job.failed is not None and not signals.received:
                    say(f"first to fail: {job.failed}")
                conclude()
        finally:
            finish(selector, signals, output, output.relay)
    return code


def _commands(lab: Lab, command: Sequence[str], environ: Mapping[str, str]) -> list[Command]:
    # The signal is SIGTERM, so that a launcher on a machine can still end its ranks itself.
    parent = os.getpid()
    return [
        Command(
            wrapped([*lab.exec(number), *command], death_signal=signal.SIGTERM, parent=parent),
            {**UNBUFFERED, **environ, **lab.environment(number)},
            machine.host,
        )
        for number, machine in enumerate(lab.machines)
    ]


def _taken(pipe: IO[bytes] | None) -> int:
    assert pipe is not None
    descriptor = os.dup(pipe.fileno())
    pipe.close()
    return descriptor
