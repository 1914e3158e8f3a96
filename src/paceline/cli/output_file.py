"""Files that commands write to a path given by an option."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

from paceline.cli.usage import UsageError
from paceline.formats.files import write_file


def writable(path: Path | None) -> Path | None:
    """An option's callback: return the path.

    Raises UsageError, before any work is done, if the file could not be written.
    """
    try:
        hindrance = 0 if path is None else _hindrance(path)
    except OSError as error:  # the text cannot be a file's name
        hindrance = error.errno or errno.EINVAL
    if hindrance:
        raise UsageError(f"cannot write {path}: {os.strerror(hindrance)}")
    return path


def write(path: Path | None, text: Callable[[], str]) -> None:
    """Write what `text` returns, if there is a path. Raises UsageError if the file cannot be written."""
    if path is None:
        return
    try:
        write_file(path, text())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _hindrance(path: Path) -> int:
    """Return the error number that says why this file cannot be written, or 0."""
    folder = path.parent
    if path.is_dir():
        return errno.EISDIR
    if not folder.is_dir():
        return errno.ENOTDIR if folder.exists() else errno.ENOENT
    if os.access(path if path.exists() else folder, os.W_OK):
        return 0
    return errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
