"""A Chrome trace that grows and is complete JSON after every write."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from paceline.formats.files import open_file

_END = b"\n]\n"
_compact = json.JSONEncoder(separators=(",", ":")).encode


class Stream:
    """A JSON array of records in a file, none of which stays in memory.

    Each write puts the closing bracket back. A process that is killed during a write leaves an array without it, which
    Chrome's format allows. Raises OSError if the file cannot be made.
    """

    def __init__(self, path: str) -> None:
        self._fd = open_file(Path(path))
        self._end = 0
        self._put(b"[" + _END)
        self._end = 1

    def write(self, records: Iterable[dict[str, object]]) -> None:
        """Append these records. Raises OSError."""
        text = _compact(list(records))[1:-1]
        if text:
            self._put((b"\n" if self._end == 1 else b",\n") + text.encode() + _END)

    def close(self) -> None:
        """Close the file, which is complete already."""
        os.close(self._fd)

    def _put(self, data: bytes) -> None:
        left, at = memoryview(data), self._end
        while left:
            wrote = os.pwrite(self._fd, left, at)
            left, at = left[wrote:], at + wrote
        self._end = at - len(_END)
