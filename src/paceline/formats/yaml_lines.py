"""Read YAML (JSON too) as plain mappings, lists and texts, with the line of each; bounded, without aliases or tags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

LONGEST_FILE = 2 << 20
"""Bytes that a file can have: some 40 000 machines, which take seconds to read."""
DEEPEST = 64
"""Levels to which mappings and lists can be nested."""

KeyPath = tuple[str | int, ...]
"""The keys and indices that lead to a value."""

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file, for the wording of errors.

    error: the class to raise. what: the kind of file ("topology"). begins: the beginning of such a file. few: why it is
    not nested deeply. key: a key or two that it has.
    """

    error: type[ValueError]
    what: str
    begins: str
    few: str
    key: str


def text_of(path: str | Path, kind: FileKind) -> str:
    """Return the text of a file. Raises `kind.error` if it is unreadable, longer than LONGEST_FILE or not UTF-8."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(LONGEST_FILE + 1)
    except OSError as error:
        raise kind.error(f"cannot read {path}: {error.strerror}") from None
    if len(data) > LONGEST_FILE:
        raise kind.error(f"{path}: a {kind.what} file is at most {LONGEST_FILE >> 20} MiB long")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise kind.error(f"{path}:{line}: this is not text in UTF-8; save the file as UTF-8") from None


class Marked:
    """A YAML document: `data` consists of dict, list and str, and `line` finds where a value stands in the text."""

    def __init__(self, text: str, source: str, kind: FileKind) -> None:
        """Parse `text`; `source` names it in errors.

        Raises `kind.error` for text that is not YAML, or that has more of it than such a file needs.
        """
        self.source, self._kind = source, kind
        self._lines: dict[KeyPath, int] = {}
        if len(text) > LONGEST_FILE:
            raise kind.error(f"{source}: a {kind.what} file is at most {LONGEST_FILE >> 20} MiB long")
        events = iter(yaml.parse(text, Loader=_LOADER))
        try:
            while not isinstance(event := next(events), yaml.DocumentStartEvent):
                if isinstance(event, yaml.StreamEndEvent):
                    raise self.error(1, f"the file is empty; a {kind.what} begins like this: {kind.begins}")
            self.data = self._value(next(events), events, ())
            next(events)
            if not isinstance(event := next(events), yaml.StreamEndEvent):
                raise self.error(_line(event), f"a {kind.what} is one YAML document; leave out what follows the ---")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self.error(mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self.error(line, f"this is not YAML: the character {chr(error.character)!r} is not allowed") from None

    def line(self, path: KeyPath) -> int:
        """Return the line, from 1, of the value at `path` or, where there is none, of the value that encloses it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def error(self, line: int, reason: str) -> ValueError:
        """Return an error about that line."""
        return self._kind.error(f"{self.source}:{line}: {reason}")

    def _value(self, event: Any, events: Iterator[Any], path: KeyPath) -> Any:
        line = _line(event)
        self._lines[path] = line
        if len(path) > DEEPEST:
            raise self.error(line, f"more than {DEEPEST} levels within one another; {self._kind.few}")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise self.error(line, "anchors and aliases (& and *) are not supported; write the value out")
        if getattr(event, "tag", None) is not None and event.tag != "!":
            raise self.error(line, f"the tag {event.tag} is not supported; write the value alone")
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Any] = []
            while not isinstance(event := next(events), yaml.SequenceEndEvent):
                items.append(self._value(event, events, (*path, len(items))))
            return items
        return self._mapping(events, path)

    def _mapping(self, events: Iterator[Any], path: KeyPath) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None:
                raise self.error(_line(event), f"a key must be a word such as {self._kind.key}")
            key = event.value
            if key in found:
                raise self.error(_line(event), f"{key!r} is there twice; keep one of them")
            found[key] = self._value(next(events), events, (*path, key))
        return found


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
