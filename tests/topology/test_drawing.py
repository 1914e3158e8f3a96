"""What is drawn of a topology: everything of a small one, what matters of a big one."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

from hypothesis import given, settings
from random_topologies import topologies
from rich.console import Console

from paceline.topology import Topology, parse
from paceline.topology.draw_svg import draw
from paceline.topology.draw_text import tree
from paceline.topology.fold import cut, fold

UNEVEN = """\
name: uneven
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - switch: rack
    uplink: 1 Gbit/s
    children:
      - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
      - {machine: gamma, ranks: 1, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}, local: 1 Gbit/s}
"""


def racks(count: int, machines: int) -> str:
    """Racks of equal machines, but for one that has a slower link."""
    lines = ["name: racks", "children:"]
    for rack in range(count):
        lines += [f"- switch: rack-{rack}", "  uplink: 400 Gbit/s", "  children:"]
        for number in range(machines):
            speed = 50 if (rack, number) == (2, 5) else 100
            lines.append(f"  - {{machine: m{rack}-{number}, ranks: 8, uplink: {speed} Gbit/s}}")
    return "\n".join(lines)


def shown(topology: Topology) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(tree(topology))
    return console.file.getvalue()


def texts(topology: Topology) -> list[str]:
    """All texts of the picture, which must be well-formed XML."""
    root = ElementTree.fromstring(draw(topology).as_svg())
    return [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_small_tree_in_the_terminal() -> None:
    assert shown(parse(UNEVEN)).splitlines() == [
        "uneven  6 ranks, each with 10 Gbit/s, 1 us inside its machine",
        "├── machine alpha  ranks 0–1  500 Mbit/s, 50 us",
        "└── switch rack  ranks 2–5  1 Gbit/s, 50 us",
        "    ├── machine beta  ranks 2–4  500 Mbit/s, 50 us",
        "    └── machine gamma  rank 5  200 Mbit/s up / 500 Mbit/s down, 50 us",
        "        └── rank 5  1 Gbit/s, 1 us",
    ]


def test_a_big_tree_is_folded_but_what_differs_stays() -> None:
    lines = shown(parse(racks(30, 40))).splitlines()
    assert lines == [
        "racks  9600 ranks, each with 10 Gbit/s, 1 us inside its machine",
        "├── switch rack-0  ranks 0–319  400 Gbit/s, 50 us",
        "│   └── 40 machines m0-0 … m0-39  ranks 0–319 (8 each)  100 Gbit/s, 50 us each",
        "├── switch rack-1  ranks 320–639  400 Gbit/s, 50 us",
        "│   └── 40 machines m1-0 … m1-39  ranks 320–639 (8 each)  100 Gbit/s, 50 us each",
        "├── switch rack-2  ranks 640–959  400 Gbit/s, 50 us",
        "│   ├── 5 machines m2-0 … m2-4  ranks 640–679 (8 each)  100 Gbit/s, 50 us each",
        "│   ├── machine m2-5  ranks 680–687  50 Gbit/s, 50 us",
        "│   └── 34 machines m2-6 … m2-39  ranks 688–959 (8 each)  100 Gbit/s, 50 us each",
        "└── 27 switches rack-3 … rack-29  ranks 960–9599 (320 each)  400 Gbit/s, 50 us each",
        "    └── 40 machines m3-0 … m3-39  ranks 960–1279 (8 each)  100 Gbit/s, 50 us each",
    ]


def test_what_neither_fits_nor_folds_is_counted() -> None:
    various = "children:\n" + "\n".join(
        f"- {{machine: m{n}, ranks: {1 + n % 3}, uplink: {n + 1} Gbit/s}}" for n in range(300)
    )
    lines = shown(parse(various)).splitlines()
    assert len(lines) < 60
    assert re.fullmatch(r"└── \d+ more machines m\d+ … m299  ranks \d+–599  links of various speeds", lines[-1])


def test_the_picture_of_a_small_tree_has_every_name_rank_and_speed() -> None:
    found = texts(parse(UNEVEN))
    assert {"uneven", "alpha", "rack", "beta", "gamma", *"012345", "500 Mbit/s", "1 Gbit/s", "50 us"} <= set(found)
    assert {"← 200 Mbit/s", "→ 500 Mbit/s, 50 us"} <= set(found)
    assert any(text.startswith("orange: slower than") for text in found)


def test_the_picture_of_a_big_tree_is_folded() -> None:
    found = texts(parse(racks(30, 40)))
    assert len(found) < 120
    assert {"m2-5", "50 Gbit/s", "27 switches rack-3 … rack-29", "34 machines m2-6 … m2-39"} <= set(found)


@given(topologies())
@settings(max_examples=40)
def test_any_topology_can_be_drawn(topology: Topology) -> None:
    assert shown(topology)
    assert texts(topology)


@given(topologies())
@settings(max_examples=40)
def test_parts_cover_every_rank_once(topology: Topology) -> None:
    for most in (2, 4, 1000):
        for part in (root := cut(fold(topology, most), most)).walk():
            if len(part.nodes) == 1 and part.children:
                assert [rank for child in part.children for rank in child.ranks] == list(part.ranks)
        assert root.ranks == range(topology.world)
