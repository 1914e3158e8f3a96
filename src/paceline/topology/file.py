"""The topology file: a cluster in a few lines of YAML.

    name: two-and-three
    local: 10 Gbit/s
    children:
      - {machine: alpha, ranks: 2, uplink: 500 Mbit/s, latency: 50 us}
      - switch: rack-2
        uplink: 1 Gbit/s
        children:
          - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
          - {machine: gamma, ranks: 1, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}}

`uplink` is a node's link to its parent, `local` the link of each rank in its machine; `local` and `local_latency`
hold for everything below. So does `burst: 1 ms`: after a pause, the bytes that an uplink carries in that time cross it
at once, as where token buckets limit the links of virtual machines or of a lab.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from paceline.formats.yaml_lines import FileKind, KeyPath, Marked, text_of
from paceline.topology.defaults import LOCAL, MOST_RANKS, NETWORK_LATENCY
from paceline.topology.errors import TopologyError
from paceline.topology.slurm import looks_like_slurm
from paceline.topology.tree import NOTHING_SAID, Guess, Kind, Link, Node, Topology, without
from paceline.topology.units import parse_speed, parse_time

LONGEST_NAME = 255
"""Characters that the name of a node can have."""

FILE_KIND = FileKind(
    TopologyError, "topology", "name: two-machines", few="a network has fewer", key="machine or uplink"
)

_KINDS: tuple[Kind, ...] = ("switch", "machine", "socket")
_BELOW: dict[Kind, tuple[Kind, ...]] = {
    "switch": ("switch", "machine"),
    "machine": ("socket", "rank"),
    "socket": ("rank",),
    "rank": (),
}
_EXAMPLE = "{machine: alpha, ranks: 2, uplink: 1 Gbit/s}"


def _speed(value: Any) -> _Speeds:
    if isinstance(value, dict):
        unknown = sorted(set(value) - {"up", "down"})
        if unknown or len(value) != 2:
            what = f"unknown: {', '.join(unknown)}" if unknown else f"only {', '.join(value) or 'nothing'} is there"
            raise ValueError(f"a link of two speeds needs both up and down ({what}); write {{up: 1 Gbit/s, down: …}}")
        return _Speeds(up=_speed(value["up"]).up, down=_speed(value["down"]).up)
    if not isinstance(value, str):
        raise ValueError("a speed is one text such as 1 Gbit/s, or {up: 1 Gbit/s, down: 2 Gbit/s}")
    speed = parse_speed(value)
    return _Speeds(up=speed, down=speed)


def _time(value: Any) -> float:
    if not isinstance(value, str):
        raise ValueError("this is one time such as 50 us")
    return parse_time(value)


def _count(value: Any) -> int:
    if not isinstance(value, str) or not value.isascii() or not value.isdigit() or not 0 < int(value[:9]) <= MOST_RANKS:
        raise ValueError(f"ranks must be a whole number from 1 to {MOST_RANKS}, not {value!r:.80}")
    return int(value)


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable() or len(value) > LONGEST_NAME:
        raise ValueError(f"a name is one line of up to {LONGEST_NAME} printable characters, not {value!r:.80}")
    return value


def _entries(value: Any) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"children must be a list with at least one entry such as - {_EXAMPLE}")
    return value


class _Speeds(BaseModel):
    up: float
    down: float


_Name = Annotated[str, BeforeValidator(_name)]
_Link = Annotated[_Speeds, BeforeValidator(_speed)]
_Time = Annotated[float, BeforeValidator(_time)]


class _Entry(BaseModel):
    """One node as the file has it."""

    model_config = ConfigDict(extra="forbid")

    name: _Name | None = None
    switch: _Name | None = None
    machine: _Name | None = None
    socket: _Name | None = None
    ranks: Annotated[int, BeforeValidator(_count)] | None = None
    uplink: _Link | None = None
    latency: _Time | None = None
    burst: _Time | None = None
    local: _Link | None = None
    local_latency: _Time | None = None
    children: Annotated[list[_Entry], BeforeValidator(_entries)] = Field(default_factory=list)

    @property
    def kind(self) -> Kind:
        return next((kind for kind in _KINDS if getattr(self, kind) is not None), "rank")

    @property
    def total(self) -> int:
        return (self.ranks or 0) + sum(child.total for child in self.children)

    def __str__(self) -> str:
        return "this entry" if self.kind == "rank" else f"{self.kind} {getattr(self, self.kind)}"


def read(path: str | Path) -> Topology:
    """Return the topology that a file describes. Raises TopologyError if the file is unreadable or wrong."""
    return parse(text_of(path, FILE_KIND), str(path))


def parse(text: str, source: str = "topology") -> Topology:
    """Return the topology that `text` describes; `source` names it in errors. Raises TopologyError."""
    if looks_like_slurm(text):
        raise TopologyError(
            f"{source}:1: this is a file of Slurm, which knows neither ranks nor speeds; make a topology file of "
            f"it: paceline topology {source} --ranks-per-machine 8 --uplink '100 Gbit/s' --yaml cluster.yaml"
        )
    document = Marked(text, source, FILE_KIND)
    if not isinstance(document.data, dict):
        raise document.error(1, "a topology is a mapping; begin with name: two-machines")
    try:
        root = _Entry.model_validate(document.data)
    except ValidationError as error:
        raise _explained(document, error) from None
    return _Builder(document).topology(root)


def _explained(document: Marked, error: ValidationError) -> ValueError:
    first = error.errors()[0]
    path: KeyPath = first["loc"]
    if first["type"] == "extra_forbidden":
        known = ", ".join(_Entry.model_fields)
        reason = f"{path[-1]!r} is not known here; known are {known}"
    elif first["type"] == "value_error":
        reason = str(first["ctx"]["error"])
    else:
        reason = f"an entry of children must be a mapping such as {_EXAMPLE}"
    return document.error(document.line(path), reason)


def _told(rank: Node, speeds: _Speeds | None, latency: float | None) -> Node:
    """The rank with what an entry says of its link."""
    assert rank.uplink is not None
    link, assumed = rank.uplink, rank.assumed
    if speeds is not None:
        link, assumed = replace(link, up=speeds.up, down=speeds.down), without("speed", assumed)
    if latency is not None:
        link, assumed = replace(link, latency=latency), without("latency", assumed)
    return replace(rank, uplink=link, assumed=assumed)


class _Builder:
    """Builds the tree, and refuses mistakes that only the whole tree shows."""

    def __init__(self, document: Marked) -> None:
        self._document = document
        self._ranks = 0
        self._named: dict[tuple[KeyPath | None, str], KeyPath] = {}

    def topology(self, root: _Entry) -> Topology:
        """Build the topology. Raises TopologyError."""
        if root.kind == "socket":
            raise self._error((), "socket", "the root is a switch or a single machine; put the socket into a machine")
        if root.uplink is not None or root.latency is not None:
            key = "uplink" if root.uplink is not None else "latency"
            raise self._error((), key, "the root has no link to a parent; leave out uplink and latency")
        name = root.name or root.switch or root.machine or Path(self._document.source).stem or "topology"
        if root.kind == "rank":
            if root.ranks is not None:
                raise self._error((), "ranks", "ranks sit in a machine; give it a name with machine: alpha")
            root = root.model_copy(update={"switch": name})
        if root.total > MOST_RANKS:
            raise self._error((), "", f"{root.total} ranks; at most {MOST_RANKS} in all")
        return Topology(name, self._node(root, (), Node("rank", "", LOCAL, assumed=NOTHING_SAID), 0.0))

    def _node(self, entry: _Entry, path: KeyPath, local: Node, burst: float) -> Node:
        """local: a rank as the entries above say that it is."""
        kind = entry.kind
        self._check(entry, path)
        local = _told(local, entry.local, entry.local_latency)
        if entry.burst is not None:
            burst = entry.burst
        children = list(self._children(entry, path, local, burst))
        uplink, assumed = None, tuple[Guess, ...]()
        if entry.uplink is not None:
            default = LOCAL.latency if kind == "socket" else NETWORK_LATENCY
            latency = default if entry.latency is None else entry.latency
            uplink = Link(entry.uplink.up, entry.uplink.down, latency, 0.0 if kind == "socket" else burst)
            assumed = ("latency",) if entry.latency is None else ()
        return Node(kind, getattr(entry, kind), uplink, tuple(children), assumed=assumed)

    def _children(self, entry: _Entry, path: KeyPath, local: Node, burst: float = 0.0) -> Iterator[Node]:
        for _ in range(entry.ranks or 0):
            yield Node("rank", f"rank {self._ranks}", local.uplink, assumed=local.assumed)
            self._ranks += 1
        for index, child in enumerate(entry.children):
            below = (*path, "children", index)
            if child.kind not in _BELOW[entry.kind]:
                fitting = " or ".join("ranks" if kind == "rank" else f"a {kind}" for kind in _BELOW[entry.kind])
                what = "an entry without a kind" if child.kind == "rank" else f"{child}"
                raise self._error(below, "", f"{what} cannot be in {entry}; {fitting} can")
            if child.name is not None:
                raise self._error(below, "name", "only the whole topology has a name; write machine: or switch: here")
            if child.kind == "rank":
                yield from self._some_ranks(child, below, local)
            else:
                yield self._node(child, below, local, burst)

    def _some_ranks(self, entry: _Entry, path: KeyPath, local: Node) -> Iterator[Node]:
        """The ranks of an entry that has nothing else, because their links differ from their neighbours'."""
        others = (entry.uplink, entry.latency, entry.burst)
        if entry.ranks is None or entry.children or any(field is not None for field in others):
            raise self._error(path, "", "an entry without machine, switch or socket has ranks, local and local_latency")
        yield from self._children(entry, path, _told(local, entry.local, entry.local_latency))

    def _check(self, entry: _Entry, path: KeyPath) -> None:
        kinds = [kind for kind in _KINDS if getattr(entry, kind) is not None]
        if len(kinds) > 1:
            raise self._error(path, kinds[1], f"this is both a {kinds[0]} and a {kinds[1]}; keep one of them")
        if path and entry.uplink is None:
            raise self._error(path, "", f"{entry} has no uplink; say how fast, for example uplink: 1 Gbit/s")
        if entry.kind == "switch":
            if entry.ranks is not None:
                raise self._error(path, "ranks", f"ranks sit in machines, and {entry} is none; write machine: for it")
            if not entry.children:
                raise self._error(path, "", f"{entry} has nothing below it; give it children: [{_EXAMPLE}]")
        elif (entry.ranks is None) is (not entry.children):
            raise self._error(path, "", f"{entry} needs either ranks, for example ranks: 2, or children")
        name = getattr(entry, entry.kind)
        within = path[:-2] if entry.kind == "socket" else None  # sockets of different machines may have the same name
        first = self._named.setdefault((within, name), path)
        if first != path:
            line = self._document.line((*first, entry.kind))
            raise self._error(path, entry.kind, f"the name {name} is taken by line {line}; choose another")

    def _error(self, path: KeyPath, key: str, reason: str) -> ValueError:
        return self._document.error(self._document.line((*path, key) if key else path), reason)
