"""The same tree with other links."""

from __future__ import annotations

import pytest

from paceline.topology import Link, parse
from paceline.topology.relink import relink

TREE = parse(
    """
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - switch: rack
    uplink: 1 Gbit/s
    children:
      - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
      - {machine: gamma, ranks: 1, uplink: 200 Mbit/s}
""",
    "test",
)


def test_machines_get_other_links_and_nothing_else_changes() -> None:
    links = [Link(1.0, 2.0), Link(3.0, 4.0), Link(5.0, 6.0)]
    changed = relink(TREE, links)
    assert [node.uplink for node, _ in changed.machines()] == links
    assert relink(changed, [node.uplink for node, _ in TREE.machines() if node.uplink is not None]) == TREE


def test_every_machine_needs_a_link() -> None:
    with pytest.raises(ValueError, match="2 links were given for 3 machines"):
        relink(TREE, [Link(1.0, 2.0)] * 2)
