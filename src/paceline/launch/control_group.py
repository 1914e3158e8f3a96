"""A control group for the processes of a job, which none of their descendants can leave by detaching itself."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from paceline.cpu.cgroup import cgroup_folders, read_file

_VERSION = 2
_GONE = 0.5
"""Seconds after which the kernel has taken a process that was killed out of its control group."""


class ControlGroup:
    """The control group at `folder`, below that of the launcher. It limits nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def new(cls) -> ControlGroup | None:
        """Make one; None where this process may not, as most users outside of containers."""
        own = next((path for path, version in cgroup_folders(read_file, "") if version == _VERSION), None)
        if own is None:
            return None
        folder = Path(own) / f"paceline-{secrets.token_hex(8)}"
        try:
            folder.mkdir()
        except OSError:
            return None
        return cls(folder)

    def take(self, pid: int) -> None:
        """Take in a process that has started nothing yet. One that may not be moved, or has ended, stays outside."""
        with suppress(OSError):
            (self.folder / "cgroup.procs").write_text(str(pid))

    def members(self) -> Iterator[int]:
        """Return the pids of all processes in it, also of those in groups that were made below it."""
        for procs in (self.folder / "cgroup.procs", *self.folder.glob("*/**/cgroup.procs")):
            with suppress(OSError, ValueError):
                yield from map(int, procs.read_text().split())

    def remove(self) -> None:
        """Remove it and those below it, if no process is left in them. One that has just ended may still be there."""
        deadline = time.monotonic() + _GONE
        while self.folder.exists() and time.monotonic() < deadline:
            try:
                self.folder.rmdir()
            except OSError:
                with suppress(OSError):
                    for below in sorted(self.folder.glob("*/**/"), reverse=True):
                        below.rmdir()
                time.sleep(0.01)
