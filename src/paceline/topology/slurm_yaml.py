"""Read the switches of Slurm's topology.yaml.

- topology: main
  cluster_default: true
  tree:
    switches:
      - {switch: spine, children: "leaf[1-2]"}
      - {switch: leaf1, nodes: "tux[0-3]"}
      - {switch: leaf2, nodes: "tux[4-7]"}
"""

from __future__ import annotations

import re
from typing import Any

from paceline.formats.yaml_lines import FileKind, KeyPath, Marked
from paceline.topology.defaults import MOST_RANKS
from paceline.topology.errors import TopologyError
from paceline.topology.hostlist import expand
from paceline.topology.slurm_tree import Switch

EXAMPLE = "{switch: leaf, nodes: tux[0-3]}"
_FIRST = re.compile(r"-\s+['\"]?(topology|cluster_default|tree|block|flat)['\"]?\s*:")
_KIND = FileKind(TopologyError, "topology", "- topology: main", few="a network has fewer", key="topology or tree")


def looks_like_slurm(text: str) -> bool:
    """Return whether the first line that says something is one of topology.yaml."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith(("#", "---", "%"))), "")
    return _FIRST.match(first) is not None


def switches_of(text: str, source: str) -> tuple[dict[str, Switch], str]:
    """Return the switches of the cluster's default topology, or of the only tree, and where it begins.

    Raises TopologyError.
    """
    document = Marked(text, source, _KIND)

    def error(path: KeyPath, reason: str) -> ValueError:
        return document.error(document.line(path), reason)

    entries = document.data if isinstance(document.data, list) else []
    trees = [number for number, one in enumerate(entries) if isinstance(one, dict) and "tree" in one]
    default = [number for number in trees if str(entries[number].get("cluster_default")).lower() in ("true", "yes")]
    chosen = default or trees
    if not trees:
        raise error((), "none of its topologies has a tree; topology/block and topology/flat describe none")
    if len(chosen) > 1:
        names = ", ".join(str(entries[number].get("topology")) for number in chosen)
        raise error((chosen[1],), f"{names} are trees, and not one of them is cluster_default; keep the one you want")
    path: KeyPath = (chosen[0], "tree", "switches")
    tree = entries[chosen[0]]["tree"]
    listed = tree.get("switches") if isinstance(tree, dict) else None
    if not isinstance(listed, list):
        raise error(path[:2], f"a tree has a list of switches such as - {EXAMPLE}")
    found: dict[str, Switch] = {}
    for number, one in enumerate(listed):
        here = (*path, number)
        name, nodes, children = _fields(one)
        if not name or bool(nodes) is bool(children):
            raise error(here, f"a switch has a name and either nodes or children, as in {EXAMPLE}")
        if name in found:
            raise error(here, f"switch {name} is at {found[name].where} already; keep one of them")
        try:
            hosts, below = expand(nodes, MOST_RANKS), expand(children, MOST_RANKS)
        except ValueError as wrong:
            raise error(here, str(wrong)) from None
        found[name] = Switch(f"{source}:{document.line(here)}", hosts, below)
    return found, f"{source}:{document.line(path)}"


def _fields(switch: Any) -> tuple[str, str, str]:
    """The name, the hosts and the switches below, as texts."""
    if not isinstance(switch, dict):
        return "", "", ""
    name, *below = (switch.get(key, "") for key in ("switch", "nodes", "children"))
    nodes, children = (",".join(map(str, one)) if isinstance(one, list) else str(one) for one in below)
    return str(name), nodes, children
