"""Ranks on larger or smaller machines keep the network that they have, inside machines and between switches."""

from __future__ import annotations

import pytest

from paceline.simulate.network import transfer
from paceline.simulate.regrouping import regrouped
from paceline.topology import Topology, parse

MACHINES = "".join(f"{{machine: {{rack}}{n}, ranks: 2, uplink: 100 Gbit/s}}, " for n in range(4))
RACKS = f"""
name: racks
local: 800 Gbit/s
children:
  - {{switch: r1, uplink: 10 Gbit/s, children: [{MACHINES.replace("{rack}", "a")}]}}
  - {{switch: r2, uplink: 20 Gbit/s, children: [{MACHINES.replace("{rack}", "b").replace("100", "50")}]}}
"""


def links(topology: Topology, kind: str) -> list[float]:
    """Gbit/s of the links above the nodes of a kind."""
    return [round(node.uplink.up * 8e-9) for node in topology.root.walk() if node.kind == kind and node.uplink]


@pytest.mark.parametrize(("factor", "machines"), [(2.0, 2), (0.5, 8)])
def test_links_and_switches_stay(factor: float, machines: int) -> None:
    grouped = regrouped(parse(RACKS), factor)
    assert grouped is not None and grouped.world == 16
    assert links(grouped, "switch") == [10, 20]
    assert links(grouped, "machine") == [100] * machines + [50] * machines
    assert set(links(grouped, "rank")) == {800}


def test_it_is_not_advised_to_use_both_larger_and_smaller_machines() -> None:
    flat = parse("local: 800 Gbit/s\nchildren: [" + MACHINES.replace("{rack}", "m") + "]")
    larger, smaller = regrouped(flat, 2.0), regrouped(flat, 0.5)
    assert larger is not None and smaller is not None
    now, *others = (transfer(each).seconds(100 << 20) for each in (flat, larger, smaller))
    assert min(others) < now * 1.01 < max(others)


@pytest.mark.parametrize(
    ("text", "factor"),
    [
        ("children: [{machine: a, ranks: 2, uplink: 1 Gbit/s}, {machine: b, ranks: 3, uplink: 1 Gbit/s}]", 2.0),
        ("children: [{machine: a, ranks: 2, uplink: 1 Gbit/s}, {machine: b, ranks: 2, uplink: 1 Gbit/s}]", 2.0),
        ("children: [{machine: a, ranks: 1, uplink: 1 Gbit/s}, {machine: b, ranks: 1, uplink: 1 Gbit/s}]", 0.5),
        (RACKS, 8.0),
    ],
)
def test_ranks_that_do_not_fit_are_not_grouped(text: str, factor: float) -> None:
    assert regrouped(parse(text), factor) is None
