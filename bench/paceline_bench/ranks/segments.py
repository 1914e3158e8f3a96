"""Shared memory to which MPIs give a name in /dev/shm, and which they leave there if they are killed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("/dev/shm")
NAMES = ("mpich_shm_", "sm_segment.", "Intel_MPI_")
"""The prefixes of the files of MPICH, Open MPI and Intel MPI."""


class Segment(NamedTuple):
    """A file, identified by its inode among those that had this name."""

    path: Path
    inode: int


def mapped(pids: Iterable[int]) -> set[Segment]:
    """Return the segments that these processes have mapped now and that still have a name.

    Only a process that made a segment, or got its name from that process, maps it. Processes that have ended have none.
    """
    found = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:  # the process has ended or belongs to another user
            continue
        for line in lines:
            fields = line.split(maxsplit=5)
            path = Path(fields[5]) if len(fields) == 6 else Path()
            if path.parent == FOLDER and path.name.startswith(NAMES) and not path.name.endswith(" (deleted)"):
                found.add(Segment(path, int(fields[4])))
    return found


def remove(segments: Iterable[Segment]) -> None:
    """Remove the names of these segments; processes keep what they have mapped."""
    for path, inode in segments:
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


class Segments:
    """The segments that one job's processes were seen to map."""

    def __init__(self) -> None:
        self._seen: set[Segment] = set()

    def note(self, pids: Iterable[int]) -> None:
        """Record what these processes of the job have mapped."""
        self._seen |= mapped(pids)

    def remove(self) -> None:
        """Remove the segments that no process maps any more; called after the job's processes have ended."""
        left = {segment for segment in self._seen if segment.path.exists()}
        self._seen.clear()
        if left:
            remove(left - mapped(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()))
