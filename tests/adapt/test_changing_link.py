"""A link that becomes slower while ranks use it, and links that nobody told them of: they find out, agree, measure and
plan again; no result is wrong."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from ahead import AHEAD
from on_a_changing_link import COUNT
from on_lab import Process, ended, heard, ranks_on

from paceline.lab.lab import Lab
from paceline.observe.report import read as whole
from paceline.topology import Link, Topology, parse, read

PROGRAM = Path(__file__).with_name("on_a_changing_link.py")
BEFORE, AFTER = 4, 44
CALLS = 8
"""Too few for anybody to measure once more."""
NBYTES = 4 * COUNT
MBIT = 1e6 / 8
TOPOLOGY = """
name: three
children:
  - {machine: alpha, ranks: 1, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 500 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 500 Mbit/s}
"""
RACKS = """
children:
  - switch: east
    uplink: 50 Mbit/s
    children:
      - {machine: alpha, ranks: 1, uplink: 50 Mbit/s}
      - {machine: beta, ranks: 1, uplink: 50 Mbit/s}
  - switch: west
    uplink: 50 Mbit/s
    children:
      - {machine: gamma, ranks: 1, uplink: 50 Mbit/s}
      - {machine: delta, ranks: 1, uplink: 50 Mbit/s}
"""
ONE_SLOW = """
children:
  - {machine: alpha, ranks: 1, uplink: 200 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 200 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 50 Mbit/s}
"""
NEWS = re.compile(r"plans made again: .*beta ([0-9.]+) Mbit/s(?: up / ([0-9.]+) Mbit/s down)?")

pytestmark = pytest.mark.timeout(400)


def on(lab: Lab, places: tuple[int, ...], *arguments: str, **settings: str) -> AbstractContextManager[list[Process]]:
    """Ranks that judge links by how long things take, and not by how busy this machine is."""
    return ranks_on(lab, places, PROGRAM, *arguments, under=AHEAD, **settings)


def slowest(network: Topology) -> float:
    """Bytes per second of its slowest link of a machine."""
    return min(node.uplink.up for node in network.root.walk() if node.kind == "machine" and node.uplink)


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.parametrize(
    ("collective", "left"),
    [("all_reduce", 160), ("all_gather", 160), ("reduce_scatter", 160), ("named", 160), ("all_reduce", 350)],
)
def test_plans_follow_a_link_that_became_slower(collective: str, left: float, tmp_path: Path) -> None:
    """left: what the link has of its 500 Mbit/s."""
    file = tmp_path / "three.yaml"
    file.write_text(TOPOLOGY)
    with (
        Lab(read(file), file) as lab,
        on(lab, (0, 1, 2), collective, str(BEFORE), str(AFTER)) as ranks,
    ):
        heard(ranks[0], "ready")
        lab.change("beta", Link(left * MBIT, left * MBIT))
        _, said = ended(ranks, "go\n")
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    found = NEWS.findall(said[0])
    assert found, said[0]
    up, down = (float(speed or found[-1][0]) for speed in found[-1])
    # Slower than it was by far; how exactly it is found depends on what else the machine does.
    assert up < (left + 500) / 2 and down < (left + 500) / 2, said[0]
    assert not NEWS.search(said[1] + said[2]), "one rank speaks for all"


@pytest.mark.needs("a lab")
def test_a_strong_change_is_planned_for_within_five_large_calls(tmp_path: Path) -> None:
    """500 Mbit/s become 100: a call takes five times as long, and loses more than measuring costs. Ranks know by then
    that nobody runs ahead. The report holds both networks."""
    place = tmp_path / "report.json"
    with (
        Lab(parse(TOPOLOGY)) as lab,
        on(lab, (0, 1, 2), "all_reduce", "30", "8", "4", PACELINE_REPORT=str(place)) as ranks,
    ):
        heard(ranks[0], "ready")
        lab.change("beta", Link(100 * MBIT, 100 * MBIT))
        _, said = ended(ranks, "go\n")
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    assert int(re.findall(r"planned again by call ([0-9]+)", said[0])[-1]) <= 5, said[0]
    report = whole(place)
    assert [rank.figures.final for rank in report.ranks] == [True] * 3
    known = [parse(network) for network in (*(one.topology for one in report.earlier), report.topology)]
    first, last = (slowest(network) / MBIT for network in (known[0], known[-1]))
    assert last < 250 < first, said[0]


@pytest.mark.needs("a lab")
def test_links_that_nobody_told_of_are_known_from_the_start() -> None:
    """A plan for equal links sends 4/3 of the buffer over each one. The one that fits sends the buffer once over the
    slow link, which is the least that can be."""
    with Lab(parse(ONE_SLOW)) as lab, on(lab, (0, 1, 2), "all_reduce", "1", "5") as ranks:
        heard(ranks[0], "ready")
        before = lab.traffic()[2]
        _, said = ended(ranks, "go\n")
        after = lab.traffic()[2]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    assert re.search(r"3 ranks on 3 machines: .* what binds is gamma's uplink \([0-9.]+ Mbit/s, .*measured: ", said[0])
    assert said[0].count("what binds") == 1 and not said[1] + said[2], said
    assert max(after.up - before.up, after.down - before.down) / (5 * NBYTES) == pytest.approx(1.05, abs=0.1), said[0]


@pytest.mark.needs("a lab")
def test_rank_0_says_once_what_binds(tmp_path: Path) -> None:
    file = tmp_path / "one-slow.yaml"
    file.write_text(ONE_SLOW)
    with Lab(read(file), file) as lab, on(lab, (0, 1, 2), "all_reduce", "1", "1") as ranks:
        heard(ranks[0], "ready")
        _, said = ended(ranks, "go\n")
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    wanted = "what binds is gamma's uplink (50 Mbit/s, the others' median is 200 Mbit/s)"
    assert said == [f"3 ranks on 3 machines: large all-reduces go by paceline; {wanted}\n", "", ""]


@pytest.mark.verify
@pytest.mark.needs("a lab")
def test_switches_that_nobody_told_of_are_found_and_planned_for() -> None:
    """Two racks whose links are half of what their machines could fill. Taken for one switch, every machine owns a
    quarter, and twice the buffer crosses each rack's link each way; with the racks known, once."""
    with (
        Lab(parse(RACKS)) as lab,
        on(lab, (0, 1, 2, 3), "all_reduce", "48", str(CALLS)) as ranks,
    ):
        heard(ranks[0], "ready")
        before = {traffic.name: traffic for traffic in lab.traffic()}
        _, said = ended(ranks, "go\n")
        after = {traffic.name: traffic for traffic in lab.traffic()}
    assert [rank.returncode for rank in ranks] == [0] * 4, said
    assert re.search(r"plans made again: .*switch-1 of alpha beta [0-9.]+ Mbit/s.* \(new\)", said[0]), said[0]
    for rack in ("east", "west"):
        crossed = max(after[rack].up - before[rack].up, after[rack].down - before[rack].down)
        assert crossed / (CALLS * NBYTES) == pytest.approx(1.0, abs=0.2), said[0]
