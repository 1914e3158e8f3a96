"""Write a topology as the YAML file that describes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import TypeVar

import yaml

from paceline.topology.defaults import LOCAL, NETWORK_LATENCY
from paceline.topology.tree import Link, Node, Topology
from paceline.topology.units import write_speed, write_time

_Fields = list[tuple[str, yaml.Node]]
_Value = TypeVar("_Value")


def dump(topology: Topology) -> str:
    """Return YAML that `parse` reads back as an equal topology, if its ranks are named by number ("rank 0", …)."""
    root = topology.root
    usual = _most_common((node.uplink for node in root.walk() if node.kind == "rank" and node.uplink), LOCAL)
    fields = [("name", _text(topology.name))]
    if (root.kind, root.name) != ("switch", topology.name):
        fields.append((root.kind, _text(root.name)))
    fields += [("local", _speeds(usual)), *_time("local_latency", usual.latency, LOCAL.latency)]
    bursts = (node.uplink.burst for node in root.children if node.kind in ("switch", "machine") and node.uplink)
    burst = _most_common(bursts, 0.0)
    fields += [*_time("burst", burst, 0.0), *_inside(root, usual, burst)]
    return str(yaml.serialize(_mapping(fields), Dumper=yaml.SafeDumper, width=2**20, allow_unicode=True))


def _entry(node: Node, usual: Link, above: float) -> yaml.Node:
    """`above`: the burst in seconds of the parent's link, which a node inherits unless it has its own."""
    assert node.uplink is not None
    latency = LOCAL.latency if node.kind == "socket" else NETWORK_LATENCY
    own = [("uplink", _speeds(node.uplink)), *_time("latency", node.uplink.latency, latency)]
    if node.kind != "socket":
        own += _time("burst", node.uplink.burst, above)
    inside = _inside(node, usual, node.uplink.burst)
    name = (node.kind, _text(node.name))
    if inside[0][0] == "ranks":
        return _mapping([name, *inside, *own], flow=True)  # in one line
    return _mapping([name, *own, *inside])


def _inside(node: Node, usual: Link, burst: float) -> _Fields:
    """The fields for what is below a node: a number of ranks, or entries for all children."""
    if all(child.kind == "rank" and child.uplink == node.children[0].uplink for child in node.children):
        return _ranks(node.children[0], len(node.children), usual)
    entries = yaml.SequenceNode("tag:yaml.org,2002:seq", list(_children(node, usual, burst)), flow_style=False)
    return [("children", entries)]


def _children(node: Node, usual: Link, burst: float) -> Iterator[yaml.Node]:
    for (kind, uplink), alike in groupby(node.children, key=lambda child: (child.kind, child.uplink)):
        children = list(alike)
        if kind == "rank":
            assert uplink is not None
            yield _mapping(_ranks(children[0], len(children), usual), flow=True)
        else:
            yield from (_entry(child, usual, burst) for child in children)


def _ranks(rank: Node, count: int, usual: Link) -> _Fields:
    assert rank.uplink is not None
    fields: _Fields = [("ranks", yaml.ScalarNode("tag:yaml.org,2002:int", str(count)))]
    if (rank.uplink.up, rank.uplink.down) != (usual.up, usual.down):
        fields.append(("local", _speeds(rank.uplink)))
    return fields + _time("local_latency", rank.uplink.latency, usual.latency)


def _most_common(values: Iterator[_Value], otherwise: _Value) -> _Value:
    return next((value for value, _ in Counter(values).most_common(1)), otherwise)


def _time(key: str, seconds: float, default: float) -> _Fields:
    return [] if seconds == default else [(key, _text(write_time(seconds)))]


def _speeds(link: Link) -> yaml.Node:
    if link.up == link.down:
        return _text(write_speed(link.up))
    return _mapping([("up", _text(write_speed(link.up))), ("down", _text(write_speed(link.down)))], flow=True)


def _mapping(fields: _Fields, flow: bool = False) -> yaml.Node:
    pairs = [(_text(key), value) for key, value in fields]
    return yaml.MappingNode("tag:yaml.org,2002:map", pairs, flow_style=flow)


def _text(text: str) -> yaml.Node:
    return yaml.ScalarNode("tag:yaml.org,2002:str", text)
