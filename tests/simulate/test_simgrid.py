"""The same programs on the same trees in SimGrid (Casanova et al. 2014), which shares links max-min fairly as well."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest

from paceline import _engine
from paceline.plan.choice import Choice
from paceline.plan.choose import choose
from paceline.plan.network import Network
from paceline.plan.wire import entry
from paceline.simulate.programs import MessageCost, all_reduce
from paceline.topology import Link, Node, Topology, read

ROOT = Path(__file__).parents[2]
TOPOLOGIES = sorted((ROOT / "docs" / "topologies").glob("*.yaml"))
PEER = ROOT / "tests" / "programs" / "simgrid_all_reduce.py"
NBYTES = 1 << 20
FREE = MessageCost(between=0.0, within=0.0, shared_between=0.0, shared_within=0.0, header=0.0)

pytestmark = pytest.mark.needs("python3-simgrid")


def without_bursts(node: Node) -> Node:
    """SimGrid has no token buckets."""
    link = replace(node.uplink, burst=0.0) if node.uplink is not None else None
    return replace(node, uplink=link, children=tuple(map(without_bursts, node.children)))


def in_simgrid(choice: Choice, topology: Topology) -> float:
    """The seconds until the last rank is done."""
    network = Network(topology)
    links = [node.uplink or Link(0.0, 0.0) for node in network.nodes]
    programs = []
    for rank in range(network.world):
        in_flight, messages = _engine.program(entry(choice), rank, network.world, NBYTES // 4)
        tracks = [
            [[message[2:] for message in stage] for _, stage in groupby(track, key=lambda message: message[1])]
            for _, track in groupby(messages, key=lambda message: message[0])
        ]
        programs.append((in_flight, tracks))
    given = {
        "nodes": [(up, link.up, link.down, link.latency) for up, link in zip(network.parent, links, strict=True)],
        "leaves": network.leaves,
        "programs": programs,
    }
    command = ["/usr/bin/python3", str(PEER)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=150)
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def test_there_are_ten_topologies() -> None:
    assert len(TOPOLOGIES) >= 10


@pytest.mark.parametrize("file", TOPOLOGIES, ids=lambda file: file.stem)
def test_an_all_reduce_takes_as_long_in_simgrid(file: Path) -> None:
    described = read(file)
    topology = Topology(described.name, without_bursts(described.root))
    choice = choose("all_reduce", topology)[-1]
    simulated = all_reduce(choice, topology, NBYTES, FREE).seconds
    assert simulated == pytest.approx(in_simgrid(choice, topology), rel=1e-3)
