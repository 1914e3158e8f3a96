"""The topology file: the example, what is wrong with others, and that what is written reads back."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from hypothesis import given, settings
from random_topologies import topologies

from paceline.topology import Link, Node, Topology, TopologyError, dump, parse, read

EXAMPLE = """\
name: two-and-three
local: 10 Gbit/s
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s, latency: 50 us}
  - switch: rack-2
    uplink: 1 Gbit/s
    children:
      - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
      - {machine: gamma, ranks: 1, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}}
"""


def ranks(first: int, count: int, local: Link) -> tuple[Node, ...]:
    return tuple(Node("rank", f"rank {number}", local) for number in range(first, first + count))


def test_the_example() -> None:
    local, half = Link(1.25e9, 1.25e9, 1e-6), Link(62.5e6, 62.5e6, 50e-6)
    alpha = Node("machine", "alpha", half, ranks(0, 2, local))
    beta = Node("machine", "beta", half, ranks(2, 3, local))
    gamma = Node("machine", "gamma", Link(25e6, 62.5e6, 50e-6), ranks(5, 1, local))
    rack = Node("switch", "rack-2", Link(125e6, 125e6, 50e-6), (beta, gamma))
    assert parse(EXAMPLE) == Topology("two-and-three", Node("switch", "two-and-three", None, (alpha, rack)))


def test_a_burst_holds_for_everything_below_until_another_is_said() -> None:
    text = EXAMPLE.replace("children:", "burst: 1 ms\nchildren:", 1)
    text = text.replace("uplink: 1 Gbit/s", "uplink: 1 Gbit/s\n    burst: 0 us")
    bursts = {node.name: node.uplink.burst for node in parse(text).root.walk() if node.uplink}
    assert bursts.pop("alpha") == 1e-3
    assert set(bursts.values()) == {0.0}


def test_a_single_machine_with_sockets() -> None:
    topology = parse(
        """
        machine: alone
        local: 40 Gbit/s
        local_latency: 2 us
        children:
        - {socket: left, uplink: 20 Gbit/s, ranks: 2}
        - {socket: right, uplink: 20 Gbit/s, latency: 3 us, ranks: 1, local: 8 Gbit/s}
        - {ranks: 1}
        """
    )
    fast = Link(5e9, 5e9, 2e-6)
    left = Node("socket", "left", Link(2.5e9, 2.5e9, 1e-6), ranks(0, 2, fast))
    right = Node("socket", "right", Link(2.5e9, 2.5e9, 3e-6), ranks(2, 1, Link(1e9, 1e9, 2e-6)))
    assert topology == Topology("alone", Node("machine", "alone", None, (left, right, *ranks(3, 1, fast))))


def test_sockets_of_several_machines_may_have_one_name_but_not_of_one() -> None:
    sockets = "children: [{socket: s0, uplink: 1 Gbit/s, ranks: 1},\n  {socket: s1, uplink: 1 Gbit/s, ranks: 1}]"
    text = "children:\n" + "".join(f"- {{machine: {name}, uplink: 1 Gbit/s, {sockets}}}\n" for name in "ab")
    assert [node.name for node in parse(text).root.walk() if node.kind == "socket"] == ["s0", "s1"] * 2
    with pytest.raises(TopologyError, match=r"^cluster.yaml:5: the name s0 is taken by line 4; choose another"):
        parse(text[::-1].replace("1s", "0s", 1)[::-1], "cluster.yaml")


def test_names_are_texts_whatever_yaml_would_make_of_them() -> None:
    topology = parse(
        "name: no\nchildren: [{machine: 1e3, ranks: 1, uplink: 1 Gbit/s}, {machine: 12:30, ranks: 1, uplink: 1 Gbit/s}]"
    )
    assert [topology.name, *(node.name for node, _ in topology.machines())] == ["no", "1e3", "12:30"]


@settings(max_examples=40)
@given(topologies())
def test_what_is_written_reads_back_equal(topology: Topology) -> None:
    assert parse(dump(topology)) == topology


def test_the_example_is_written_as_a_person_would() -> None:
    assert dump(parse(EXAMPLE)) == dedent(
        """\
        name: two-and-three
        local: 10 Gbit/s
        children:
        - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
        - switch: rack-2
          uplink: 1 Gbit/s
          children:
          - {machine: beta, ranks: 3, uplink: 500 Mbit/s}
          - {machine: gamma, ranks: 1, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}}
        """
    )


def wrong(old: str, new: str) -> str:
    assert old in EXAMPLE
    return EXAMPLE.replace(old, new)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "1: the file is empty; a topology begins like this: name: two-machines"),
        ("- 1", "1: a topology is a mapping; begin with name: two-machines"),
        ("a: [}", "1: this is not YAML: "),
        ("\nname: \x07", "2: this is not YAML: the character '\\x07' is not allowed"),
        (EXAMPLE + "---\n", "10: a topology is one YAML document; leave out what follows the ---"),
        (wrong("ranks: 3", "ranks: 0"), "8: ranks must be a whole number from 1 to 1000000, not '0'"),
        (wrong("ranks: 3", "ranks: 2.5"), "8: ranks must be a whole number from 1 to 1000000, not '2.5'"),
        (wrong("ranks: 3", "ranks: 1000001"), "8: ranks must be a whole number from 1 to 1000000, not '1000001'"),
        (wrong("ranks: 3", "ranks: 1000000"), "1: 1000003 ranks; at most 1000000 in all"),
        (
            wrong("ranks: 3, uplink: 500 Mbit/s", "ranks: 3, uplink: 500"),
            "8: '500' is not a speed; write it like 500 Mbit/s, 10 Gbit/s, 120 MB/s, 1.5 GiB/s or pcie4",
        ),
        (wrong("latency: 50 us", "latency: 50"), "4: '50' is not a time; write it like 50 us, 1.5 ms or 0 s"),
        (
            wrong(", down: 500 Mbit/s", ""),
            "9: a link of two speeds needs both up and down (only up is there); write {up: 1 Gbit/s, down: …}",
        ),
        (
            wrong("down: 500", "over: 500"),
            "9: a link of two speeds needs both up and down (unknown: over); write {up: 1",
        ),
        (wrong("machine: beta", "machine: alpha"), "8: the name alpha is taken by line 4; choose another"),
        (wrong("ranks: 3,", "ranks: 3, ranks: 3,"), "8: 'ranks' is there twice; keep one of them"),
        (
            wrong("    uplink: 1 Gbit/s\n", ""),
            "5: switch rack-2 has no uplink; say how fast, for example uplink: 1 Gbit/s",
        ),
        (
            wrong("ranks: 3,", "ranks: 3, speed: 1,"),
            "8: 'speed' is not known here; known are name, switch, machine, socket, ranks, uplink, latency, burst, "
            "local, local_latency, children",
        ),
        (wrong("ranks: 3, ", ""), "8: machine beta needs either ranks, for example ranks: 2, or children"),
        (
            wrong("machine: beta", "switch: beta"),
            "8: ranks sit in machines, and switch beta is none; write machine: for it",
        ),
        (
            wrong("machine: beta", "socket: beta"),
            "8: socket beta cannot be in switch rack-2; a switch or a machine can",
        ),
        (
            wrong("machine: beta, ", ""),
            "8: an entry without a kind cannot be in switch rack-2; a switch or a machine can",
        ),
        (
            wrong("machine: beta", "machine: beta, switch: b"),
            "8: this is both a switch and a machine; keep one of them",
        ),
        (
            wrong("machine: beta", "name: x, machine: beta"),
            "8: only the whole topology has a name; write machine: or switch:",
        ),
        (wrong("local: 10", "uplink: 10"), "2: the root has no link to a parent; leave out uplink and latency"),
        ("name: x\nranks: 2", "2: ranks sit in a machine; give it a name with machine: alpha"),
        ("socket: x\nranks: 2", "1: the root is a switch or a single machine; put the socket into a machine"),
        (
            "name: x",
            "1: switch x has nothing below it; give it children: [{machine: alpha, ranks: 2, uplink: 1 Gbit/s}]",
        ),
        (
            "name: x\nchildren: 3",
            "2: children must be a list with at least one entry such as - {machine: alpha, ranks: 2,",
        ),
        (
            "children: [1]",
            "1: an entry of children must be a mapping such as {machine: alpha, ranks: 2, uplink: 1 Gbit/s}",
        ),
        ("machine: ''\nranks: 1", "1: a name is one line of up to 255 printable characters, not ''"),
        ("machine: &a x\nranks: *a", "1: anchors and aliases (& and *) are not supported; write the value out"),
        ("machine: !!python/name:os.system x", "1: the tag tag:yaml.org,2002:python/name:os.system is not supported"),
        ("[" * 100_000, "1: more than 64 levels within one another; a network has fewer"),
        ("? {a: 1}\n: 2", "1: a key must be a word such as machine or uplink"),
    ],
)
def test_every_error_says_where_and_what_would_be_right(text: str, complaint: str) -> None:
    with pytest.raises(TopologyError) as raised:
        parse(text, "cluster.yaml")
    assert str(raised.value).startswith(f"cluster.yaml:{complaint}")
    assert "\n" not in str(raised.value)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(EXAMPLE.replace("name: two-and-three\n", ""))
    assert read(path).name == "cluster"
    with pytest.raises(TopologyError, match=r"cannot read .*: No such file or directory"):
        read(tmp_path / "none.yaml")
    path.write_bytes(b"name: x\nmachine: \xff")
    with pytest.raises(TopologyError, match=r"cluster.yaml:2: this is not text in UTF-8; save the file as UTF-8"):
        read(path)
    with path.open("wb") as file:
        file.truncate(3 << 20)
    with pytest.raises(TopologyError, match="at most 2 MiB long"):
        read(path)
