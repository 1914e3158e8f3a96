"""Files at paths that the user names, which may be links, pipes and devices, in folders that others can write to.

A plain file is replaced as a whole, and whoever reads it meanwhile finds the old one or the new one. What is there
already and is not a plain file is written through, for it has a reader of its own.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import select
import stat
from pathlib import Path

_READER_SECONDS = 5.0
"""Seconds that the reader of a pipe may take nothing."""
_MOST_LINKS = 40
_KEPT = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)
"""The errors that say that a file cannot be replaced."""
_EMPTIED = os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_DESCRIPTOR = re.compile(r"/proc/\d+/(?:task/\d+/)?fd/(\d+)")


def write_file(path: Path, content: str | bytes) -> None:
    """Write `content` to `path`, completely or not at all if it is a plain file.

    Links are followed. Raises OSError, whose `strerror` says what is wrong: also for a link, a pipe or a device of
    another user than this one and root, a disk, a socket, and a pipe that nobody reads.
    """
    data = content.encode() if isinstance(content, str) else content
    place, found = _place(path)
    if found is not None and not stat.S_ISREG(found.st_mode):
        _put(_through(place, found), data)
        return
    try:
        _replace(place, found, data)
    except OSError as error:
        # The folder takes no new file, or the file is where a container has one of its host.
        if found is None or error.errno not in _KEPT or found.st_uid != os.geteuid():
            raise OSError(error.errno, error.strerror, str(path)) from None
        _put(os.open(place, _EMPTIED), data)


def hindrance(path: Path) -> str:
    """Return why `write_file` could not write this file now, "" if it could. Leaves nothing behind."""
    try:
        place, found = _place(path)
        if found is not None and not stat.S_ISREG(found.st_mode):
            return "" if _is_open_to(place, found) else os.strerror(errno.EACCES)
        unfinished = place.with_name(f".{secrets.token_hex(8)}")
        try:
            os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
            unfinished.unlink()
        except OSError as error:
            if found is None or error.errno not in _KEPT or found.st_uid != os.geteuid():
                raise
            os.close(os.open(place, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC))
    except (OSError, ValueError) as error:  # a name with a null byte is none of a file
        return getattr(error, "strerror", None) or str(error)
    return ""


def folder_hindrance(folder: Path) -> str:
    """Return why no file can be written into this folder, "" if one can. Makes the folder if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        return getattr(error, "strerror", None) or str(error)
    return hindrance(folder / secrets.token_hex(8))


def is_replaced(path: Path) -> bool:
    """Return whether `write_file` puts a plain file there, as it may again and again."""
    try:
        _, found = _place(path)
    except OSError:
        return False
    return found is None or stat.S_ISREG(found.st_mode)


def resolved(path: Path) -> Path:
    """Return what the links from `path` lead to, to be opened with O_NOFOLLOW. Raises OSError as `write_file`."""
    return _place(path)[0]


def open_file(path: Path) -> int:
    """Return a descriptor of the emptied plain file at `path`, which is made if it is missing, or of a device there.

    Links are followed. Raises OSError as `write_file`, and for a pipe, in which nothing can be changed later.
    """
    place, found = _place(path)
    if found is not None and not (stat.S_ISREG(found.st_mode) or stat.S_ISCHR(found.st_mode)):
        raise OSError(errno.ESPIPE, "it is not a plain file", str(path))
    return os.open(place, _EMPTIED | os.O_CREAT, 0o666)


def _place(path: Path) -> tuple[Path, os.stat_result | None]:
    """Follow links from `path`. Returns what they lead to, and what is there, None if nothing is."""
    place = path
    for _ in range(_MOST_LINKS):
        place = Path(os.path.realpath(place.parent)) / place.name
        try:
            found = place.lstat()
        except FileNotFoundError:
            return place, None
        kind = stat.S_IFMT(found.st_mode)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if kind != stat.S_IFREG and found.st_uid not in (0, os.geteuid()):
            what = "a link" if kind == stat.S_IFLNK else "a pipe or a device"
            raise PermissionError(errno.EACCES, f"{place} is {what} of another user", str(path))
        if kind != stat.S_IFLNK or _DESCRIPTOR.fullmatch(str(place)):
            return place, found
        place = place.parent / place.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def _replace(place: Path, found: os.stat_result | None, data: bytes) -> None:
    """Put a new file in the place of the one that was `found` there, with its owner and its mode."""
    unfinished = place.with_name(f".{secrets.token_hex(8)}")
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        if found is not None:
            if os.geteuid() == 0:
                os.fchown(descriptor, found.st_uid, found.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(found.st_mode))
        _put(descriptor, data)
        unfinished.replace(place)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _through(place: Path, found: os.stat_result) -> int:
    """Open what is not a plain file, without waiting for a reader."""
    if stat.S_ISLNK(found.st_mode):  # /dev/stdout and its like: the open file itself, at its own position
        return os.dup(int(place.name))
    if not (stat.S_ISCHR(found.st_mode) or stat.S_ISFIFO(found.st_mode)):
        raise OSError(errno.EINVAL, "it is neither a file nor a pipe nor a terminal", str(place))
    try:
        return os.open(place, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "nobody reads this pipe", str(place)) from None
        raise


def _is_open_to(place: Path, found: os.stat_result) -> bool:
    kind = stat.S_IFMT(found.st_mode)
    return kind == stat.S_IFLNK or (kind in (stat.S_IFCHR, stat.S_IFIFO) and os.access(place, os.W_OK))


def _put(descriptor: int, data: bytes) -> None:
    """Write all of `data` and close the descriptor."""
    left = memoryview(data)
    try:
        while left:
            try:
                left = left[os.write(descriptor, left) :]
            except BlockingIOError:
                if not select.select([], [descriptor], [], _READER_SECONDS)[1]:
                    raise TimeoutError(errno.ETIMEDOUT, "its reader does not go on") from None
    finally:
        os.close(descriptor)
