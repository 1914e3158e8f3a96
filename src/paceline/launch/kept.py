"""Keeps a job from outliving a launcher that is killed, and what its ranks have started from outliving the job.

    python -m paceline.launch.kept MARK FOLDER

ends a job whose launcher has died. MARK: that of its processes. FOLDER: its control group, or "-".
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paceline.launch import keeper, tree
from paceline.launch.control_group import ControlGroup
from paceline.launch.job import Job

_GRACE_SECONDS = 2.0
"""Seconds that processes have to end by themselves."""


@contextmanager
def kept(job: Job) -> Iterator[None]:
    """End what the job starts, also if this process is killed meanwhile. The job must not have been started."""
    job.group = ControlGroup.new()
    try:
        with _keeper(job):
            yield
    finally:
        if job.group is not None:
            job.group.remove()


@contextmanager
def _keeper(job: Job) -> Iterator[None]:
    program = (sys.executable, "-m", __spec__.name, job.mark, str(job.group.folder) if job.group else "-")
    outer = {name: value for name, value in os.environ.items() if name != tree.MARK}
    process = subprocess.Popen(
        (sys.executable, "-I", "-S", keeper.__file__, *program),
        env=outer,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            process.stdin.write(keeper.OVER)
            process.stdin.close()
        process.wait()


def main(mark: str, folder: str) -> None:
    """End the job with this mark, in this control group."""
    group = ControlGroup(Path(folder)) if folder != "-" else None
    tree.end(mark, (), _GRACE_SECONDS, group)
    if group is not None:
        group.remove()


if __name__ == "__main__":
    main(*sys.argv[1:])
