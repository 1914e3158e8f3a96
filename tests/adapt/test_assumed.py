"""What a group takes its network for, and what a measurement says of it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from paceline.adapt.network import Assumed
from paceline.topology import Link, Topology, parse
from paceline.topology.discover import Placement

TWO = "children: [{machine: alpha, ranks: 1, uplink: 1 Gbit/s}, {machine: beta, ranks: 2, uplink: 1 Gbit/s}]"


def times(topology: Topology, up: float, down: float) -> Topology:
    """With another link above the first machine."""
    first, *others = topology.root.children
    assert first.uplink is not None
    link = Link(first.uplink.up * up, first.uplink.down * down, first.uplink.latency)
    return replace(topology, root=replace(topology.root, children=(replace(first, uplink=link), *others)))


@given(st.floats(0.92, 1.09), st.floats(0.92, 1.09))
def test_links_that_are_what_they_were_taken_for_are_no_news(up: float, down: float) -> None:
    known = parse(TWO)
    assert Assumed(Placement(known, (0, 1, 2))).measured(Placement(times(known, up, down), (0, 1, 2)), [])[1] == ""


@given(st.sampled_from([(0.8, 1.0), (1.0, 0.8), (1.3, 1.0), (1.0, 1.3)]))
def test_a_link_that_is_another_one_way_is(factors: tuple[float, float]) -> None:
    known = parse(TWO)
    now, news = Assumed(Placement(known, (0, 1, 2))).measured(Placement(times(known, *factors), (0, 1, 2)), [])
    assert news.startswith("alpha ") and "(taken for 1 Gbit/s), beta 1 Gbit/s (taken for 1 Gbit/s)" in news
    assert now.topology.root.children[0].uplink == times(known, *factors).root.children[0].uplink
