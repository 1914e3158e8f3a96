"""The file to which every finished row is appended, so that a characterisation can be interrupted and continued."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from paceline.cli.usage import UsageError
from paceline.formats.files import resolved
from paceline_bench.characterize.row import Configuration, Row

FORMAT = "paceline characterize 1"
MOST_BYTES = 64 * 2**20
"""Bytes of the largest file that is read."""


class Results:
    """The rows that are done. file: keeps them, one JSON object a line; None keeps them in memory alone.

    Raises UsageError if the file cannot be read or is something else. A last line that an interruption has cut is
    ignored, and overwritten by the next row.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._end = 0
        self.rows: list[Row] = []
        if file is not None and file.exists():
            self._read(file)

    def done(self) -> set[tuple[Configuration, str]]:
        """Return which approaches are done in which configurations."""
        return {(row.configuration, row.approach) for row in self.rows}

    def add(self, rows: Iterable[Row]) -> None:
        """Keep these rows; they replace earlier ones of the same approach in the same configuration.

        Raises UsageError if the file cannot be written.
        """
        for row in rows:
            self._put(row)
            if self._file is not None:
                line = json.dumps({"format": FORMAT, **asdict(row)}).encode() + b"\n"
                try:
                    self._append(self._file, line)
                except OSError as error:
                    raise UsageError(f"cannot write {self._file}: {error.strerror}") from None

    def _append(self, file: Path, line: bytes) -> None:
        descriptor = os.open(resolved(file), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            os.pwrite(descriptor, line, self._end)
            self._end += len(line)
            os.ftruncate(descriptor, self._end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _put(self, row: Row) -> None:
        key = (row.configuration, row.approach)
        self.rows = [one for one in self.rows if (one.configuration, one.approach) != key]
        self.rows.append(row)

    def _read(self, file: Path) -> None:
        from pydantic import TypeAdapter, ValidationError

        try:
            with file.open("rb") as stream:
                data = stream.read(MOST_BYTES + 1)
        except OSError as error:
            raise UsageError(f"cannot read {file}: {error.strerror}") from None
        if len(data) > MOST_BYTES:
            raise UsageError(f"{file} has more than {MOST_BYTES >> 20} MiB; it holds no rows of a characterisation")
        self._end = data.rfind(b"\n") + 1
        adapter = TypeAdapter(Row)
        for number, line in enumerate(data[: self._end].splitlines(), 1):
            try:
                found = json.loads(line)
                if not isinstance(found, dict) or found.pop("format", None) != FORMAT:
                    raise ValueError(f"it lacks the format {FORMAT!r}")
                self._put(adapter.validate_python(found))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"]))
                raise UsageError(
                    f"{file}, line {number}, is no row of a characterisation: {where} {first['msg']}"
                ) from None
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{file}, line {number}, is no row of a characterisation: {error!s:.200}") from None
        if not self.rows and data:
            raise UsageError(f"{file} holds no rows of a characterisation; give the name of a new file")
