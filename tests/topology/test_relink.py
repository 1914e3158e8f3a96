"""The same tree with other links."""

from __future__ import annotations

import pytest
from small_cluster import RACK

from paceline.topology import Link
from paceline.topology.relink import relink


def test_machines_get_other_links_and_nothing_else_changes() -> None:
    links = [Link(1.0, 2.0), Link(3.0, 4.0), Link(5.0, 6.0)]
    changed = relink(RACK, links)
    assert [node.uplink for node, _ in changed.machines()] == links
    assert relink(changed, [node.uplink for node, _ in RACK.machines() if node.uplink is not None]) == RACK


def test_every_machine_needs_a_link() -> None:
    with pytest.raises(ValueError, match="2 links were given for 3 machines"):
        relink(RACK, [Link(1.0, 2.0)] * 2)
