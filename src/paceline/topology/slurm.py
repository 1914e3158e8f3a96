"""Read Slurm's descriptions of a network as a topology: topology.conf (its plugin topology/tree), topology.yaml, and
the output of `scontrol show topology`.

    SwitchName=leaf1 Nodes=tux[0-3]
    SwitchName=leaf2 Nodes=tux[4-7]
    SwitchName=spine Switches=leaf[1-2]

They name switches and hosts, but neither ranks nor speeds: LinkSpeed has no unit, and Slurm itself does not use it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from paceline.formats.yaml_lines import FileKind, text_of
from paceline.topology import slurm_yaml
from paceline.topology.defaults import MOST_RANKS
from paceline.topology.errors import TopologyError
from paceline.topology.hostlist import expand
from paceline.topology.slurm_tree import Switch, SwitchTree
from paceline.topology.tree import Link, Topology

EXAMPLE = "SwitchName=leaf Nodes=tux[0-3]"
_FIELD = re.compile(r"""(\w+)\s*=\s*("[^"]*"|'[^']*'|[^\s"']+)\s*""")
_SPACES = re.compile(r"\s+")
_INCLUDE = re.compile(r"include\s+(\S.*)", re.IGNORECASE)
_KNOWN = ("switchname", "nodes", "switches", "linkspeed", "level")
_NONE = "(null)"
"""A list without names, as `scontrol` prints it."""
_MOST_INCLUDED = 16
"""Files that include each other in a row."""
_KIND = FileKind(TopologyError, "topology", EXAMPLE, few="a network has fewer", key="SwitchName")


def looks_like_slurm(text: str) -> bool:
    """Return whether the first line that is neither empty nor a comment is one of Slurm's."""
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    if re.match(r"\s*((switchname|blockname)\s*=|include\s+[^:]*$)", first, re.IGNORECASE):
        return True
    return slurm_yaml.looks_like_slurm(text)


def parse(
    text: str,
    source: str,
    ranks: int | Mapping[str, int],
    uplink: float,
    switch_uplink: float | None = None,
    local: Link | None = None,
) -> Topology:
    """Return the topology of the hosts that Slurm describes, or of those that `ranks` names.

    text: the file's content. source: its path, for errors and for what it includes. ranks: the number of ranks on each
    host; hosts that a mapping lacks are left out, and so are switches without a host. uplink: bytes per second of a
    host's link, each way. switch_uplink: the same for a switch's link; None makes it as fast as all hosts below it
    together. local: the link of each rank in its machine; None for the usual one.
    Raises TopologyError.
    """
    if slurm_yaml.looks_like_slurm(text):
        switches, begin, example = *slurm_yaml.switches_of(text, source), slurm_yaml.EXAMPLE
    else:
        switches, begin, example = _switches_of(text, source), f"{source}:1", EXAMPLE
    return SwitchTree(switches, begin, example, ranks, uplink, switch_uplink, local).topology()


def _switches_of(text: str, source: str) -> dict[str, Switch]:
    found: dict[str, Switch] = {}
    for where, statement in _statements(text, source):
        name, switch = _switch(where, statement)
        if name in found:
            raise TopologyError(f"{where}: switch {name} is at {found[name].where} already; keep one of them")
        found[name] = switch
    return found


def _switch(where: str, statement: str) -> tuple[str, Switch]:
    fields = {key.lower(): _SPACES.sub("", value.strip("\"'")) for key, value in _FIELD.findall(statement)}
    fields = {key: value for key, value in fields.items() if value != _NONE}
    if "".join(_FIELD.split(statement)[::3]).strip():
        raise TopologyError(f"{where}: {statement!r:.80} is not KEY=VALUE; write {EXAMPLE}")
    if unknown := [key for key in fields if key not in _KNOWN]:
        blocks = "; the plugin topology/block describes no tree" if unknown[0].startswith("block") else ""
        raise TopologyError(
            f"{where}: {unknown[0]} is not known; known are SwitchName, Nodes, Switches, LinkSpeed, Level{blocks}"
        )
    if "level" in fields and "switches" in fields:
        fields.pop("nodes", None)  # `scontrol` prints all hosts below a switch, too
    if "switchname" not in fields or ("nodes" in fields) is ("switches" in fields):
        raise TopologyError(
            f"{where}: a line has SwitchName and either Nodes or Switches, as in SwitchName=a Nodes=tux[0-3]"
        )
    try:
        nodes = expand(fields.get("nodes", ""), MOST_RANKS)
        switches = expand(fields.get("switches", ""), MOST_RANKS)
    except ValueError as error:
        raise TopologyError(f"{where}: {error}") from None
    return fields["switchname"], Switch(where, nodes, switches)


def _statements(text: str, source: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each statement with its place, also of included files, without comments.

    A backslash at the end of a line continues it.
    """
    for number, statement in _lines(text):
        where = f"{source}:{number}"
        included = _INCLUDE.fullmatch(statement)
        if included is None:
            yield where, statement
            continue
        if depth == _MOST_INCLUDED:
            raise TopologyError(f"{where}: {_MOST_INCLUDED} files include each other in a row; one includes itself")
        path = Path(source).parent / included[1].strip("\"'")
        try:
            more = text_of(path, _KIND)
        except TopologyError as error:
            raise TopologyError(f"{where}: {error}") from None
        yield from _statements(more, str(path), depth + 1)


def _lines(text: str) -> Iterator[tuple[int, str]]:
    begun, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if begun else number
        line = line.partition("#")[0].rstrip()
        if line.endswith("\\"):
            begun += line[:-1]
            continue
        if (begun + line).strip():
            yield first, (begun + line).strip()
        begun = ""
    if begun.strip():
        yield first, begun.strip()
