"""Topology: the tree of machines, switches and links that the ranks of a job sit in. It knows no plan."""

from paceline.topology.tree import Link, Node, Topology

__all__ = ["Link", "Node", "Topology"]
