"""Shared memory that MPIs give a name in /dev/shm, and leave there when they are ended by force."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FOLDER = Path("/dev/shm")
NAMES = ("mpich_shm_", "sm_segment.", "Intel_MPI_")
"""How the files of MPICH, Open MPI and Intel MPI begin."""


class Segment(NamedTuple):
    """A file, and which of those that had this name."""

    path: Path
    inode: int


def mapped(pids: Iterable[int]) -> set[Segment]:
    """The segments that these processes have mapped now and that still have a name; processes that are gone have none.

    Only who made a segment, or was given its name by who did, maps it.
    """
    found = set()
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        except OSError:  # gone, or another user's
            continue
        for line in lines:
            fields = line.split(maxsplit=5)
            path = Path(fields[5]) if len(fields) == 6 else Path()
            if path.parent == FOLDER and path.name.startswith(NAMES) and not path.name.endswith(" (deleted)"):
                found.add(Segment(path, int(fields[4])))
    return found


def remove(segments: Iterable[Segment]) -> None:
    """Take their names away; what processes have mapped they keep."""
    for path, inode in segments:
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


class Segments:
    """Those that one job's processes were seen to map."""

    def __init__(self) -> None:
        self._seen: set[Segment] = set()

    def note(self, pids: Iterable[int]) -> None:
        """Look at what these processes of the job have mapped."""
        self._seen |= mapped(pids)

    def remove(self) -> None:
        """The job's processes have ended: remove what nobody has mapped any more."""
        left = {segment for segment in self._seen if segment.path.exists()}
        self._seen.clear()
        if left:
            remove(left - mapped(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()))
