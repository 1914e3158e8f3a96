"""A rank's last operations as JSON: in a file, written at the end and after an error, or sent by the running rank."""

import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.formats.files import write_file
from paceline.formats.json_input import load_json
from paceline.host_name import host_name
from paceline.observe.trace.clocks import Clocks
from paceline.observe.trace.event import Event, events
from paceline.observe.trace.request import Request
from paceline.observe.trace.request import requests as parse_requests
from paceline.settings.settings import Settings

FORMAT = "paceline trace 2"
MAX_EVENTS = 65536
"""The most events, and the most requests, that a dump holds: the newest ones. The engine's rings hold fewer."""
MAX_FILE_BYTES = 256 * 2**20
"""The size in bytes of the largest file that is read."""
_NAME = re.compile(r"rank-\d{5,}\.json")

log = logging.getLogger("paceline")


@dataclass(frozen=True)
class Group:
    """A group of a rank: its name, and its members' ranks in the world, in the group's order."""

    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Dump:
    """The record of one rank.

    size: the number of ranks in the job. groups: by channel, as far as the rank knew them; the whole job's is first.
    requests: of the rank's coordinators, in the order in which they ended. reason: the rank's first failure, "" without
    one. written_ns: when the dump was made, CLOCK_REALTIME in ns. line: the source line of the main thread, "" at its
    end. clocks: what the rank knows of the clocks of other machines.
    """

    rank: int
    host: str
    pid: int
    events: tuple[Event, ...]
    size: int = 0
    groups: Mapping[int, Group] = field(default_factory=dict)
    reason: str = ""
    written_ns: int = 0
    line: str = ""
    requests: tuple[Request, ...] = ()
    clocks: Clocks = field(default_factory=Clocks)

    def __post_init__(self) -> None:
        object.__setattr__(self, "clocks", self.clocks.of(self.host))


def dump(
    rows: Sequence[Sequence[object]],
    settings: Settings,
    rank: int,
    size: int,
    *,
    groups: Mapping[int, Group] | None = None,
    requests: Sequence[Request] = (),
    reason: str = "",
    clocks: Clocks | None = None,
) -> Path | None:
    """Write `Engine.events()` of this rank to the folder that PACELINE_TRACE names. Returns None if it names none.

    It is meant for the end of a process and for errors, and raises nothing: if the folder cannot be written, that is
    logged.
    """
    if not settings.trace:
        return None
    try:
        return write(
            Path(settings.trace),
            rank,
            host_name(),
            os.getpid(),
            rows,
            size=size,
            groups=groups,
            requests=requests,
            reason=reason,
            clocks=clocks,
        )
    except (OSError, ValueError) as error:
        log.warning("no trace in %s: %s", settings.trace, error)
        return None


def write(
    folder: Path,
    rank: int,
    host: str,
    pid: int,
    rows: Sequence[Sequence[object]],
    *,
    size: int = 0,
    groups: Mapping[int, Group] | None = None,
    requests: Sequence[Request] = (),
    reason: str = "",
    clocks: Clocks | None = None,
) -> Path:
    """Write `rank-00000.json` into the folder, completely or not at all, and return its path. An older file is
    replaced.

    Raises OSError if the folder cannot be written, and ValueError for rows that are not events.
    """
    content = encode(rank, host, pid, rows, size=size, groups=groups, requests=requests, reason=reason, clocks=clocks)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"rank-{rank:05d}.json"
    write_file(path, content)
    return path


def encode(
    rank: int,
    host: str,
    pid: int,
    rows: Sequence[Sequence[object]],
    *,
    size: int = 0,
    groups: Mapping[int, Group] | None = None,
    requests: Sequence[Request] = (),
    reason: str = "",
    line: str = "",
    clocks: Clocks | None = None,
) -> str:
    """Return a dump in the format that `decode` reads. Raises ValueError for rows that are not events."""
    content = {
        "format": FORMAT,
        "rank": rank,
        "size": size,
        "host": host,
        "pid": pid,
        "reason": reason[:10000],
        "line": line,
        "written_ns": time.time_ns(),
        "machine": clocks.machine if clocks is not None else "",
        "clocks": {other: list(ahead) for other, ahead in clocks.ahead.items()} if clocks is not None else {},
        "groups": {str(channel): [group.name, list(group.ranks)] for channel, group in (groups or {}).items()},
        "fields": list(Event._fields),
        "events": events(rows[-MAX_EVENTS:]),
        "request_fields": list(Request._fields),
        "requests": requests[-MAX_EVENTS:],
    }
    return json.dumps(content, separators=(",", ":"))


def decode(text: str | bytes) -> Dump:
    """Return the dump that `encode` wrote. Raises ValueError, "not a dump: …", for anything else."""
    try:
        content: Any = load_json(text)
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r:.60}, not {FORMAT!r}")
        return Dump(
            rank=int(content["rank"]),
            host=str(content["host"]),
            pid=int(content["pid"]),
            events=events(content["events"]),
            size=int(content["size"]),
            groups={int(c): Group(str(name), tuple(map(int, ranks))) for c, (name, ranks) in content["groups"].items()},
            reason=str(content["reason"]),
            written_ns=int(content["written_ns"]),
            line=str(content.get("line", "")),
            requests=parse_requests(content["requests"]),
            clocks=_clocks(content),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a dump: {error}") from None


def _clocks(content: Any) -> Clocks:
    ahead = {str(other): (int(least), int(most)) for other, (least, most) in content.get("clocks", {}).items()}
    return Clocks(str(content.get("machine", "")), ahead)


def read(folder: Path) -> list[Dump]:
    """Return the dumps of a folder, ordered by rank.

    Raises ValueError with one sentence if there are none or one is invalid.
    """
    if not folder.is_dir():
        raise ValueError(f"there is no folder {folder}")
    paths = sorted(path for path in folder.iterdir() if _NAME.fullmatch(path.name))
    if not paths:
        raise ValueError(f"{folder} holds no dumps (rank-00000.json, …); run the job with PACELINE_TRACE={folder}")
    return sorted((_read(path) for path in paths), key=lambda dump: dump.rank)


def _read(path: Path) -> Dump:
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"{path} is larger than a dump can be")
    try:
        return decode(content)
    except ValueError as error:
        raise ValueError(f"{path} is {error}") from None
