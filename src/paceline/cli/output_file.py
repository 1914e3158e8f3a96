"""Files that commands write where an option says."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import typer

UsageError: type[Exception] = typer.BadParameter.__mro__[1]
"""What becomes one sentence and exit code 2: see `paceline.cli.main.main`. Its name moved between Typer's versions, its
place in the hierarchy didn't."""


def writable(path: Path | None) -> Path | None:
    """An option's callback: refuses, before any work is done, a file that could not be written after it."""
    try:
        hindrance = 0 if path is None else _hindrance(path)
    except OSError as error:  # a name that no file can have
        hindrance = error.errno or errno.EINVAL
    if hindrance:
        raise UsageError(f"cannot write {path}: {os.strerror(hindrance)}")
    return path


def write(path: Path | None, text: Callable[[], str]) -> None:
    """Write what `text` makes, if there is a file to write; one sentence for what goes wrong."""
    if path is None:
        return
    try:
        path.write_text(text())
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def _hindrance(path: Path) -> int:
    """Why this file cannot be written, as an error number, or 0."""
    folder = path.parent
    if path.is_dir():
        return errno.EISDIR
    if not folder.is_dir():
        return errno.ENOTDIR if folder.exists() else errno.ENOENT
    if os.access(path if path.exists() else folder, os.W_OK):
        return 0
    return errno.EROFS if os.statvfs(folder).f_flag & os.ST_RDONLY else errno.EACCES
