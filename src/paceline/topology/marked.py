"""YAML as plain mappings, lists and texts, with the line of each; bounded, and without aliases or tags."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from paceline.topology.errors import TopologyError

LONGEST_FILE = 16 << 20
"""Bytes."""
DEEPEST = 64
"""Mappings and lists within one another."""

Path = tuple[str | int, ...]

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Marked:
    """A document: `data` of dict, list and str; `line(path)` says where the value at a path of keys and indices is."""

    def __init__(self, text: str, source: str) -> None:
        """Raises TopologyError for what is not YAML, or more of it than a topology needs."""
        self.source = source
        self._lines: dict[Path, int] = {}
        if len(text) > LONGEST_FILE:
            raise TopologyError(f"{source}: a topology file is at most {LONGEST_FILE >> 20} MiB long")
        events = iter(yaml.parse(text, Loader=_LOADER))
        try:
            while not isinstance(event := next(events), yaml.DocumentStartEvent):
                if isinstance(event, yaml.StreamEndEvent):
                    raise self.error(1, "the file is empty; a topology begins like this: name: two-machines")
            self.data = self._value(next(events), events, ())
            next(events)
            if not isinstance(event := next(events), yaml.StreamEndEvent):
                raise self.error(_line(event), "a topology is one YAML document; leave out what follows the ---")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            raise self.error(mark.line + 1 if mark else 1, f"this is not YAML: {error.problem}") from None
        except yaml.reader.ReaderError as error:
            line = text.count("\n", 0, error.position) + 1
            raise self.error(line, f"this is not YAML: the character {chr(error.character)!r} is not allowed") from None

    def line(self, path: Path) -> int:
        """The line, from 1, of what is at `path` or, where nothing is, of what encloses it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    def error(self, line: int, reason: str) -> TopologyError:
        """A TopologyError about that line."""
        return TopologyError(f"{self.source}:{line}: {reason}")

    def _value(self, event: Any, events: Iterator[Any], path: Path) -> Any:
        line = _line(event)
        self._lines[path] = line
        if len(path) > DEEPEST:
            raise self.error(line, f"more than {DEEPEST} levels within one another; a network has fewer")
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

    def _mapping(self, events: Iterator[Any], path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            if not isinstance(event, yaml.ScalarEvent) or event.anchor is not None:
                raise self.error(_line(event), "a key must be a word such as machine or uplink")
            key = event.value
            if key in found:
                raise self.error(_line(event), f"{key!r} is there twice; keep one of them")
            found[key] = self._value(next(events), events, (*path, key))
        return found


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
