"""The control groups of this process, by the text of /proc: where the limits of a controller stand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePosixPath

Reader = Callable[[str], "str | None"]
"""A function that returns the text of the file at an absolute path, or None where there is no such file."""


def read_file(path: str) -> str | None:
    """Return the text of a file of this machine, or None where it cannot be read: a `Reader`."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return None


def cgroup_folders(read: Reader, controller: str) -> list[tuple[str, int]]:
    """The folders that may hold a limit of this process by a controller such as cpu, with their cgroup version.

    The process's own comes before those above it.
    """
    paths: dict[int, str] = {}
    for line in (read("/proc/self/cgroup") or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            paths[2] = path
        elif controller in controllers.split(","):
            paths[1] = path
    folders: list[tuple[str, int]] = []
    for line in (read("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        root, mount = fields[3], fields[4]
        if kind[0] == "cgroup2" and 2 in paths:
            folders += [(folder, 2) for folder in _upwards(paths[2], root, mount)]
        elif kind[0] == "cgroup" and controller in kind[2].split(",") and 1 in paths:
            folders += [(folder, 1) for folder in _upwards(paths[1], root, mount)]
    return folders


def _upwards(path: str, root: str, mount: str) -> list[str]:
    """The folders from cgroup `path` up to the mount point, which shows the hierarchy from `root` on."""
    try:
        inside = PurePosixPath(path).relative_to(root)
    except ValueError:  # in a container the mount point is its own cgroup, but the path is the host's
        return [mount]
    if ".." in inside.parts:
        return [mount]
    whole = PurePosixPath(mount) / inside
    return [str(whole)] + [str(up) for up in whole.parents if up.is_relative_to(mount)]
