"""Topology: the tree of machines, switches and links that the ranks of a job sit in. It knows no plan."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from paceline.topology.errors import TopologyError
from paceline.topology.tree import Cpus, Link, Node, Topology

if TYPE_CHECKING:
    from paceline.topology.file import parse, read
    from paceline.topology.serialize import dump

__all__ = ["Cpus", "Link", "Node", "Topology", "TopologyError", "dump", "parse", "read"]

_FILES = {"dump": "paceline.topology.serialize", "parse": "paceline.topology.file", "read": "paceline.topology.file"}


def __getattr__(name: str) -> Any:
    """Import what needs pydantic when it is first used, so that a rank that starts without a file need not wait."""
    if name in _FILES:
        return globals().setdefault(name, getattr(import_module(_FILES[name]), name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
