"""Slurm's topology.conf and its lists of hosts."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.formats.yaml_lines import text_of
from paceline.topology import Link, TopologyError, dump, parse, slurm
from paceline.topology.file import FILE_KIND
from paceline.topology.hostlist import expand

TREE = """
# three switches
SwitchName=s0 Nodes=tux[0-2]   # three hosts
SWITCHNAME=s1 Nodes=tux[3-4],\\
login  LinkSpeed=100

SwitchName=s2 Switches=s[0-1]
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("tux", ["tux"]),
        ("tux[0-3,12],login", ["tux0", "tux1", "tux2", "tux3", "tux12", "login"]),
        ("a[08-10]", ["a08", "a09", "a10"]),
        ("a[0-59],b[0-38]", [*(f"a{n}" for n in range(60)), *(f"b{n}" for n in range(39))]),
        ("r[0-1]n[1-2].x", ["r0n1.x", "r0n2.x", "r1n1.x", "r1n2.x"]),
    ],
)
def test_lists_of_hosts(text: str, names: list[str]) -> None:
    assert expand(text, 100) == names


@pytest.mark.parametrize("text", ["a[", "a]", "a[1-]", "a[2-1]", "a[x]", "a[1-2", "a,,b", "a[]", "a b", "a[1-[2]]"])
def test_what_is_no_list_of_hosts(text: str) -> None:
    with pytest.raises(ValueError, match="is no list of"):
        expand(text, 100)


def test_a_list_is_bounded_before_it_is_made() -> None:
    for text in ("a[0-999999999]", "a[0-9]b[0-9]c[0-9]", "a[0-9],b[0-90]", "a[" + "1," * 100 + "2]"):
        with pytest.raises(ValueError, match="names more than 100 hosts"):
            expand(text, 100)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20))
def test_numbers_come_in_the_order_in_which_they_are_written(numbers: list[int]) -> None:
    assert expand(f"h[{','.join(map(str, numbers))}]", 100) == [f"h{number}" for number in numbers]


def test_the_tree() -> None:
    topology = slurm.parse(TREE, "topology.conf", 2, 1e9)
    assert topology.name == "s2"
    assert [(node.name, list(ranks)) for node, ranks in topology.machines()] == [
        ("tux0", [0, 1]),
        ("tux1", [2, 3]),
        ("tux2", [4, 5]),
        ("tux3", [6, 7]),
        ("tux4", [8, 9]),
        ("login", [10, 11]),
    ]
    assert [child.uplink for child in topology.root.children] == [Link(3e9, 3e9, 50e-6)] * 2
    assert {machine.uplink for machine, _ in topology.machines()} == {Link(1e9, 1e9, 50e-6)}
    assert parse(dump(topology)) == topology


SHOWN = """SwitchName=s0 Level=0 LinkSpeed=1 Nodes=tux[0-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=tux[3-4],login
SwitchName=s2 Level=1 LinkSpeed=1 Nodes=tux[0-4],login Switches=s[0-1]
"""
AS_YAML = """---
# of Slurm 25.05
- topology: flat
  cluster_default: false
  flat: true
- topology: main
  cluster_default: true
  tree:
    switches:
      - switch: s0
        nodes: tux[0-2]
      - {switch: s1, nodes: "tux[3-4],login"}
      - switch: s2
        children: s[0-1]
- topology: old
  cluster_default: false
  tree: {switches: [{switch: a, nodes: b}]}
"""


@pytest.mark.parametrize(
    "text",
    [
        TREE.replace("Nodes=tux[0-2]", 'Nodes="tux[0-2]"'),
        TREE.replace("=", " = "),
        TREE.replace("Nodes=tux[0-2] ", "nodes= 'tux0, tux1,tux2' Level=0"),
        SHOWN,
        SHOWN.replace("Nodes=tux[0-4],login ", "Nodes=(null) "),
        AS_YAML,
    ],
)
def test_whatever_form_it_has(text: str) -> None:
    assert slurm.looks_like_slurm(text)
    assert slurm.parse(text, "topology", 2, 1e9) == slurm.parse(TREE, "topology.conf", 2, 1e9)


def test_with_a_byte_order_mark_and_in_several_files(tmp_path: Path) -> None:
    whole, racks = tmp_path / "topology.conf", tmp_path / "racks" / "leaves.conf"
    racks.parent.mkdir()
    head, _, top = TREE.strip().rpartition("\n")
    racks.write_text(head)
    whole.write_text(f"\ufeffInclude racks/leaves.conf\n{top}")
    text = text_of(whole, FILE_KIND)
    assert slurm.looks_like_slurm(text)
    assert slurm.parse(text, str(whole), 2, 1e9) == slurm.parse(TREE, "topology.conf", 2, 1e9)
    racks.write_text(head.replace("tux[0-2]", "tux[0-"))
    with pytest.raises(TopologyError, match=rf"^{racks}:2: 'tux\[0-' is no list of names"):
        slurm.parse(text, str(whole), 2, 1e9)
    racks.write_text("include ../topology.conf")
    with pytest.raises(TopologyError, match="16 files include each other in a row; one includes itself"):
        slurm.parse(text, str(whole), 2, 1e9)
    racks.unlink()
    with pytest.raises(TopologyError, match=rf"^{whole}:1: cannot read {racks}: No such file"):
        slurm.parse(text, str(whole), 2, 1e9)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("- topology: a\n  block: {}\n", "1: none of its topologies has a tree"),
        (AS_YAML.replace("true\n  tree", "false\n  tree"), "15: main, old are trees, and not one of them is cluster_d"),
        ("- topology: a\n  tree: 5\n", "2: a tree has a list of switches such as - {switch: leaf, nodes: tux"),
        ("- topology: a\n  tree:\n    switches:\n      - {switch: a}", "4: a switch has a name and either nodes or c"),
        ("- topology: a\n  tree:\n    switches:\n      - {switch: a, nodes: b[}", "4: this is not YAML"),
        ("- topology: a\n  tree:\n    switches:\n      - {switch: a, children: b}", "4: there is no switch b; add it"),
        ("- topology: a\n  tree:\n    switches: []\n", "3: there is no switch; write {switch: leaf, nodes"),
    ],
)
def test_mistakes_in_yaml_are_explained(text: str, complaint: str) -> None:
    with pytest.raises(TopologyError) as error:
        slurm.parse(text, "topology.yaml", 1, 1e9)
    assert str(error.value).startswith(f"topology.yaml:{complaint}")


def test_hosts_without_ranks_are_left_out() -> None:
    topology = slurm.parse(TREE, "topology.conf", {"tux1": 3, "tux0": 1}, 1e9, switch_uplink=5e9)
    assert [child.name for child in topology.root.children] == ["s0"]
    assert topology.root.children[0].uplink == Link(5e9, 5e9, 50e-6)
    assert [(node.name, len(ranks)) for node, ranks in topology.machines()] == [("tux0", 1), ("tux1", 3)]
    with pytest.raises(TopologyError, match="none of the hosts has ranks"):
        slurm.parse(TREE, "topology.conf", {"other": 1}, 1e9)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("# nothing", "1: there is no switch; write SwitchName=leaf Nodes=tux[0-3]"),
        (
            "SwitchName=a Nodes=x\nSwitchName=b Nodes=y",
            "2: switches a and b are not joined; add a switch above them",
        ),
        ("SwitchName=a Nodes=x\nSwitchName=a Nodes=y", "2: switch a is at topology.conf:1 already; keep one of them"),
        ("SwitchName=a Switches=b", "1: there is no switch b; add it"),
        (
            "SwitchName=a Nodes=x\nSwitchName=b Nodes=x\nSwitchName=c Switches=a,b",
            "2: x is below a and b; a tree has one",
        ),
        (
            "SwitchName=a Switches=b\nSwitchName=b Switches=a",
            "1: every switch is below another one, and so below itself",
        ),
        (
            "SwitchName=t Nodes=x\nSwitchName=a Switches=b\nSwitchName=b Switches=a",
            "2: switch a is below itself; a net",
        ),
        (
            "SwitchName=a Nodes=x Switches=b",
            "1: a line has SwitchName and either Nodes or Switches, as in SwitchName=a",
        ),
        ("SwitchName=a", "1: a line has SwitchName and either Nodes or Switches"),
        ("\nSwitchName=a Nodes", "2: 'SwitchName=a Nodes' is not KEY=VALUE; write SwitchName=leaf Nodes=tux[0-3]"),
        ("SwitchName=a Nodes=x[", "1: 'x[' is no list of names; write it like tux[0-3,12] or tux0,tux1"),
        (
            "SwitchName=a Nodes=x[0-999999] Speed=1",
            "1: speed is not known; known are SwitchName, Nodes, Switches, Link",
        ),
        (
            "BlockName=a Nodes=x",
            "1: blockname is not known; known are SwitchName, Nodes, Switches, LinkSpeed, Level; the",
        ),
        ("SwitchName=a Nodes=x[0-999999]", "1: more than 1000000 ranks"),
        (
            "\n".join(f"SwitchName=s{n} Switches=s{n + 1}" for n in range(3000)) + "\nSwitchName=s3000 Nodes=x",
            "65: more than 64 levels of switches; a network has fewer",
        ),
    ],
)
def test_every_error_says_where_and_what_would_be_right(text: str, complaint: str) -> None:
    with pytest.raises(TopologyError) as raised:
        slurm.parse(text, "topology.conf", 2, 1e9)
    assert str(raised.value).startswith(f"topology.conf:{complaint}")
    assert "\n" not in str(raised.value)


def test_which_files_are_slurms() -> None:
    assert slurm.looks_like_slurm(TREE)
    assert slurm.looks_like_slurm("BlockName=x Nodes=y")
    assert not slurm.looks_like_slurm("# SwitchName=x\nname: two")
    assert not slurm.looks_like_slurm("")


def test_where_a_topology_file_is_wanted_it_says_how_to_make_one() -> None:
    with pytest.raises(TopologyError, match=r"^topology.conf:1: .*: paceline topology topology.conf --ranks"):
        parse(TREE, "topology.conf")
