"""The lab's machines: they reach each other by name, the host does not see them, and they go away."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from launched import all_gone

from paceline.lab.lab import Lab, switched
from paceline.lab.layout import UNLIMITED
from paceline.lab.namespaces import Unavailable, existing, remove_abandoned
from paceline.lab.shaping import bucket
from paceline.topology import Link, Node, Topology, read

LISTEN = "import socket,sys; s=socket.create_server((sys.argv[1], 5000)); print('ready', flush=True); \
print(s.accept()[0].recv(9).decode())"
CONNECT = "import socket,sys; socket.create_connection((sys.argv[1], 5000), 5).sendall(b'hello')"
MBIT = 1e6 / 8


def machine(name: str, link: Link | None, ranks: int = 1) -> Node:
    return Node("machine", name, link, tuple(Node("rank", f"rank {number}", UNLIMITED) for number in range(ranks)))


def nested() -> Topology:
    """Two machines on a switch, and a third behind another switch with a slower link of its own."""
    fast = Link(200 * MBIT, 200 * MBIT)
    rack = Node("switch", "rack", Link(100 * MBIT, 50 * MBIT), (machine("c", fast, 2),))
    return Topology("nested", Node("switch", "top", None, (machine("a", fast), machine("b", fast), rack)))


@pytest.mark.smoke
@pytest.mark.needs("a lab")
def test_machines_reach_each_other_and_are_gone_afterwards() -> None:
    with Lab(nested()) as lab:
        listen = [*lab.exec(2), sys.executable, "-c", LISTEN, "c"]
        with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            subprocess.run([*lab.exec(0), sys.executable, "-c", CONNECT, "c"], check=True, timeout=150)
            assert server.stdout.read() == "hello\n"
        addresses = subprocess.run(["ip", "address"], capture_output=True, text=True, check=True).stdout
        assert lab.machines[0].address not in addresses
        assert len([name for name in existing() if name.startswith(lab.prefix)]) == 5
    assert not [name for name in existing() if name.startswith(lab.prefix)]


@pytest.mark.needs("a lab")
def test_machines_know_each_other_beforehand() -> None:
    """What the kernel has to find out itself it keeps in places that all namespaces share: 64 machines need more."""
    with Lab(nested()) as lab:
        for number, machine in enumerate(lab.machines):
            shown = subprocess.run([*lab.exec(number), "ip", "neigh"], capture_output=True, text=True, check=True)
            lines = [line.split() for line in shown.stdout.splitlines() if "PERMANENT" in line]
            others = [other for other in lab.machines if other is not machine]
            assert {line[0]: line[4] for line in lines} == {other.address: other.mac for other in others}


@pytest.mark.needs("a lab")
def test_a_machine_has_its_own_host_name_and_the_host_keeps_its() -> None:
    before = (
        (Path("/etc/hostname").read_text(), Path("/etc/hosts").read_text()) if Path("/etc/hostname").exists() else ()
    )
    with Lab(switched([1, 1])) as lab:
        show = "import socket; print(socket.gethostname(), socket.gethostbyname('machine-0'))"
        words = [*lab.exec(1), sys.executable, "-c", show]
        said = subprocess.run(words, capture_output=True, text=True, timeout=150, check=True).stdout
        assert said.split() == ["machine-1", lab.machines[0].address]
    if before:
        assert before == (Path("/etc/hostname").read_text(), Path("/etc/hosts").read_text())


@pytest.mark.needs("a lab")
def test_it_is_removed_after_a_failure() -> None:
    lab = Lab(nested())
    with pytest.raises(KeyError), lab:
        raise KeyError
    assert not [name for name in existing() if name.startswith(lab.prefix)]


@pytest.mark.needs("a lab")
def test_what_cannot_be_made_leaves_nothing() -> None:
    """The kernel refuses a link this slow, after much of the lab was made."""
    lab = Lab(switched([1, 1], Link(0.01, 0.01)))
    with pytest.raises(Unavailable, match="tc"), lab:
        pass
    assert not [name for name in existing() if name.startswith(lab.prefix)]


@pytest.mark.needs("a lab")
def test_what_a_process_left_that_was_killed_with_its_guard_is_removed_by_the_next() -> None:
    """With what runs there."""
    leave = """
import os, subprocess
from paceline.lab.lab import Lab, switched
lab = Lab(switched([1]))
lab.__enter__()
nothing = subprocess.DEVNULL
left = subprocess.Popen([*lab.exec(0), "sleep", "600"], start_new_session=True, stdout=nothing, stderr=nothing)
print(lab.prefix, left.pid, flush=True)
os.kill(lab.guard.pid, 9)
os._exit(9)
"""
    said = subprocess.run([sys.executable, "-c", leave], capture_output=True, text=True, timeout=150).stdout.split()
    prefix, pid = said
    assert [name for name in existing() if name.startswith(prefix)]
    with Lab(switched([1])) as alive:
        assert not [name for name in existing() if name.startswith(prefix)]
        all_gone([int(pid)])
        assert not remove_abandoned()
        assert alive.machines[0].namespace in existing()


@pytest.mark.needs("a lab")
def test_labs_that_start_together_remove_the_same_remains() -> None:
    leave = "import os; from paceline.lab.lab import Lab, switched; lab = Lab(switched([1] * 6)); lab.__enter__(); \
print(lab.prefix, flush=True); os.kill(lab.guard.pid, 9); os._exit(9)"
    prefix = subprocess.run([sys.executable, "-c", leave], capture_output=True, text=True, timeout=150).stdout.strip()
    start = [sys.executable, "-c", "from paceline.lab.lab import Lab, switched\nwith Lab(switched([1])): pass"]
    together = [subprocess.Popen(start) for _ in range(4)]
    assert [one.wait(60) for one in together] == [0] * 4
    assert not [name for name in existing() if name.startswith(prefix)]


def test_the_slowest_link_on_a_way_counts() -> None:
    lab = Lab(nested())
    ways = {(0, 1): 200, (0, 2): 50, (2, 0): 100, (1, 2): 50}
    assert {way: lab.rate(*way) / MBIT for way in ways} == ways
    assert [uplink.name for uplink in lab.uplinks] == ["a", "b", "rack", "c"]
    assert [list(one.ranks) for one in lab.machines] == [[0], [1], [2, 3]]


def test_a_topology_that_is_no_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="every rank in a machine"):
        Lab(Topology("stray", Node("switch", "s", None, (Node("rank", "r", UNLIMITED),))))
    with pytest.raises(ValueError, match="a different name for every machine"):
        Lab(Topology("twins", Node("switch", "s", None, (machine("a", UNLIMITED), machine("a", UNLIMITED)))))
    with pytest.raises(ValueError, match="at most"):
        Lab(switched([1] * 300))


def test_machines_get_host_names_that_differ() -> None:
    names = ("gpu 1", "gpu-1", "größe", "…")
    lab = Lab(Topology("names", Node("switch", "s", None, tuple(machine(name, UNLIMITED) for name in names))))
    hosts = [one.host for one in lab.machines]
    assert len(set(hosts)) == 4
    assert all(host.isascii() and host.replace("-", "").isalnum() for host in hosts)


SILENT = """children:
  - {machine: a, ranks: 1, uplink: 200 Mbit/s}
  - switch: rack
    uplink: {up: 100 Mbit/s, down: 50 Mbit/s}
    children: [{machine: b, ranks: 2, uplink: 300 Mbit/s}]
"""


def told(lab: Lab) -> Path:
    return Path(lab.environment(0)["PACELINE_TOPOLOGY"])


def test_jobs_are_told_of_the_bursts_that_the_links_let_cross(tmp_path: Path) -> None:
    """1 ms where the file says nothing, and at least 16 kB: on the rack's link, 1.28 ms of the faster way."""
    file = tmp_path / "nested.yaml"
    file.write_text(SILENT)
    lab = Lab(read(file), file)
    known = read(told(lab))
    assert known == lab.topology
    bursts = {node.name: node.uplink.burst for node in known.root.walk() if node.uplink and node.kind != "rank"}
    assert bursts == {"a": 1e-3, "b": 1e-3, "rack": pytest.approx(1.28e-3)}
    for one in lab.uplinks:
        buckets = [bucket(rate, one.link) / rate for rate in (one.link.up, one.link.down)]
        assert min(buckets) == pytest.approx(one.link.burst)


def test_a_file_that_says_it_all_is_handed_to_the_jobs_itself(tmp_path: Path) -> None:
    file = tmp_path / "said.yaml"
    file.write_text(f"burst: 2 ms\n{SILENT}")
    assert told(Lab(read(file), file)) == file


def test_who_is_inside_a_lab_knows_the_same_of_it(tmp_path: Path) -> None:
    file = tmp_path / "nested.yaml"
    file.write_text(SILENT)
    lab = Lab(read(file), file)
    found = Lab.inside(lab.environment(1))
    assert found is not None
    inside, number = found
    assert number == 1
    assert inside.topology == lab.topology == read(told(inside))


@pytest.mark.parametrize(
    "file", sorted((Path(__file__).parents[2] / "docs" / "topologies").glob("*.yaml")), ids=lambda file: file.stem
)
def test_the_documented_networks_can_be_made(file: Path) -> None:
    lab = Lab(read(file))
    assert lab.topology.name == file.stem
    assert sum(len(one.ranks) for one in lab.machines) == lab.topology.world > 1
    assert all(0 < one.link.up < 2e8 for one in lab.uplinks)
