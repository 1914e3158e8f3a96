"""Real processes on the network of a topology file: every algorithm gives exact results, and misfits are named."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from jobs import PROGRAMS, RAW, job, run, words
from on_lab import warm_on
from warm_python import WarmPython

from paceline.lab.lab import Lab
from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.flexreduce import flexreduce
from paceline.topology import parse, read

PROGRAM = PROGRAMS / "on_machines.py"
BROADCASTS = PROGRAMS / "broadcasts.py"
REDUCTIONS = PROGRAMS / "reductions.py"
PORT = "28533"
TWO_AND_THREE = """
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 3, uplink: 200 Mbit/s}
"""
DEEP = """
children:
  - {machine: alpha, ranks: 2, uplink: 1 Gbit/s}
  - switch: rack
    uplink: 1 Gbit/s
    children:
      - {machine: beta, ranks: 1, uplink: 500 Mbit/s}
      - {machine: gamma, ranks: 2, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}}
"""


class Machines(NamedTuple):
    """Those of a lab, and on each of them a process from which its ranks are forked."""

    lab: Lab
    warm: list[WarmPython]


@contextmanager
def made(topology: str) -> Iterator[Machines]:
    with Lab(parse(topology)) as lab, warm_on(lab, RAW) as warm:
        yield Machines(lab, warm)


@pytest.fixture(scope="module")
def two_machines() -> Iterator[Machines]:
    with made(TWO_AND_THREE) as machines:
        yield machines


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "network.yaml"
    path.write_text(TWO_AND_THREE)
    return path


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """For what the ranks write."""
    path = tmp_path / "out"
    path.mkdir()
    return path


def run_on(machines: Machines, places: str, output: Path, *, program: Path = PROGRAM, **environ: str) -> None:
    """Ranks on the machines that `places` names by number; fails with what they wrote if one of them does."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PACELINE_", "SLURM_", "OMPI_"))}
    common = {
        **clean,
        "WORLD_SIZE": str(len(places)),
        "MASTER_ADDR": machines.lab.machines[0].address,
        "MASTER_PORT": PORT,
        **environ,
    }
    output.mkdir(exist_ok=True)
    ranks = []
    for rank, machine in enumerate(places):
        files = output / f"rank{rank}.out", output / f"rank{rank}.err"
        ranks.append(machines.warm[int(machine)].start([str(program)], {**common, "RANK": str(rank)}, *files))
    try:
        codes = [rank.wait(250) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert codes == [0] * len(places), words(output)


@pytest.mark.needs("a lab")
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_between_two_machines(algorithm: str, two_machines: Machines, file: Path, out: Path) -> None:
    run_on(two_machines, "00111", out, PACELINE_TOPOLOGY=str(file), PACELINE_ALGORITHM=algorithm)


@pytest.mark.needs("a lab")
def test_machines_that_find_each_other_plan_too(two_machines: Machines, out: Path) -> None:
    run_on(two_machines, "01101", out)


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.parametrize(("program", "way"), [(BROADCASTS, "down"), (REDUCTIONS, "up")])
def test_whoever_the_root_is_it_enters_or_leaves_every_machine_and_switch_once(
    program: Path, way: str, file: Path, out: Path
) -> None:
    """By the kernel's counters; each rank is the root of 4 MiB once."""
    file.write_text(DEEP)
    with made(DEEP) as machines:
        run_on(machines, "00122", out, program=program, PACELINE_TOPOLOGY=str(file))
        crossed = {traffic.name: getattr(traffic, way) / (4 << 20) for traffic in machines.lab.traffic()}
    # One crossing for every root elsewhere, and headers.
    assert crossed == pytest.approx({"alpha": 3, "rack": 2, "beta": 4, "gamma": 3}, abs=0.3)


@pytest.mark.verify
@pytest.mark.parametrize("algorithm", ["", "flexreduce", "paceline"])
def test_a_deeper_tree(algorithm: str, file: Path, out: Path) -> None:
    file.write_text(DEEP)
    env = {"PACELINE_TOPOLOGY": str(file), **({"PACELINE_ALGORITHM": algorithm} if algorithm else {})}
    run(5, PROGRAM, "00122", output=out, env=env)


def test_owners_that_hold_nothing_of_their_range(file: Path, out: Path) -> None:
    """1 + 4 ranks: FlexReduce makes ranks owners of what they gave away, and their stale copies must not count."""
    file.write_text(TWO_AND_THREE.replace("ranks: 2", "ranks: 1").replace("ranks: 3", "ranks: 4"))
    plan = flexreduce(read(file))
    assert any(step.owner not in step.holders for level in plan.levels for step in level)
    env = {"PACELINE_TOPOLOGY": str(file), "PACELINE_ALGORITHM": "flexreduce"}
    run(5, PROGRAM, "01111", output=out, env=env)


def test_a_rank_that_runs_ahead_is_not_held_up(out: Path) -> None:
    run(2, PROGRAMS / "early_rank.py", output=out)


def failure(output: Path, machines: str, env: dict[str, str], per_rank: dict[int, dict[str, str]]) -> list[str]:
    """What each rank's last line says when a job fails."""
    text = (
        "import os, sys; rank = int(os.environ['RANK']); "
        f"os.environ.update({per_rank!r}.get(rank, {{}})); os.environ['PACELINE_MACHINE'] = {machines!r}[rank]; "
        "import paceline, paceline.errors\n"
        "try:\n    paceline.init(timeout=100)\n"
        "except (paceline.errors.CommunicationError, ValueError) as error:\n    print(error)"
    )
    program = output.with_name("program.py")
    program.write_text(text)
    with job(len(machines), program, output=output, env=env) as running:
        running.wait(150)
    return [path.read_text().strip() for path in sorted(output.glob("*out*"))]


def said_by_all(lines: list[str], *parts: str) -> bool:
    assert len(lines) > 1
    return all(part in line for line in lines for part in parts)


def test_ranks_with_different_topologies_are_named_on_every_rank(file: Path, out: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(DEEP)
    env = {"PACELINE_TOPOLOGY": str(file)}
    lines = failure(out, "00111", env, {3: {"PACELINE_TOPOLOGY": str(other)}})
    assert said_by_all(lines, "PACELINE_TOPOLOGY must mean the same on all ranks", "on ranks 0, 1, 2, 4", "on rank 3")
    lines = failure(out, "00111", env, {2: {"PACELINE_TOPOLOGY": ""}})
    assert said_by_all(lines, "not set on rank 2")


def test_a_file_that_one_rank_cannot_read_is_named_on_every_rank(file: Path, out: Path) -> None:
    env = {"PACELINE_TOPOLOGY": str(file)}
    lines = failure(out, "00111", env, {4: {"PACELINE_TOPOLOGY": "/nowhere.yaml"}})
    assert said_by_all(lines, "PACELINE_TOPOLOGY on rank 4 (host ", "cannot read /nowhere.yaml: No such file")


def test_different_algorithms_are_named_on_every_rank(out: Path) -> None:
    env = {"PACELINE_ALGORITHM": "ring"}
    lines = failure(out, "01", env, {1: {"PACELINE_ALGORITHM": "flexreduce"}})
    assert said_by_all(lines, "PACELINE_ALGORITHM must mean the same", "ring on rank 0", "flexreduce on rank 1")


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ("0011", "describes 5 ranks, but 4 have met"),
        ("01111", "puts rank 0 (host "),
        ("00000", "on beta, but it shares a machine with the ranks of alpha"),
    ],
)
def test_a_topology_that_is_not_this_jobs_is_named_on_every_rank(
    machines: str, message: str, file: Path, out: Path
) -> None:
    lines = failure(out, machines, {"PACELINE_TOPOLOGY": str(file)}, {})
    assert said_by_all(lines, f"PACELINE_TOPOLOGY={file}", message)


def member(rank: int, host: str, kernel: str = "", cpus: str = "1") -> Any:
    from paceline.rendezvous import Member

    text = {"process": f"{rank:032x}", "ticket": "", "machine": f"boot-{host}", "place": f"{kernel}-{host}"}
    text |= dict.fromkeys(("version", "network", "algorithm", "compress", "address"), "")
    rest = {"pid": 1, "pids": 1, "uid": 0, "certain": True, "keyed": False, "protocol": 3, "speed": 0}
    return Member(rank=rank, size=5, host=host, cpus=cpus, **text, **rest)


def test_places_follow_the_names_of_hosts(file: Path) -> None:
    """Ranks numbered across machines find their places by the machines' names."""
    from paceline.runtime.placement import Placements, given

    members = [member(rank, host) for rank, host in enumerate(("beta", "alpha", "beta", "alpha", "beta"))]
    places = Placements(given(str(file)), members)
    assert places.of(members).ranks == (1, 3, 0, 2, 4)
    part = places.of(members[1:4])
    assert (part.ranks, part.topology.world) == ((0, 2, 1), 3)
    assert [(node.name, len(ranks)) for node, ranks in part.topology.machines()] == [("alpha", 2), ("beta", 1)]


CLUSTER = """
children:
  - switch: east
    uplink: 20 Gbit/s
    children:
      - {machine: node1.cluster, ranks: 8, uplink: 10 Gbit/s}
      - {machine: node2.cluster, ranks: 8, uplink: 10 Gbit/s}
  - switch: west
    uplink: 20 Gbit/s
    children:
      - {machine: node3.cluster, ranks: 8, uplink: 5 Gbit/s}
      - {machine: node4.cluster, ranks: 8, uplink: 10 Gbit/s}
"""


@pytest.mark.parametrize("domain", ["", ".cluster"])
def test_a_job_takes_its_part_of_a_clusters_file(domain: str, tmp_path: Path) -> None:
    from paceline.runtime.placement import Placements, given
    from paceline.topology import dump, parse

    whole = tmp_path / "cluster.yaml"
    whole.write_text(CLUSTER)
    members = [member(rank, f"node{host}{domain}") for rank, host in enumerate((3, 1, 3, 1, 1))]
    places = Placements(given(str(whole)), members)
    part = places.of(members)
    assert part.ranks == (1, 3, 4, 0, 2)
    assert [(node.name, len(ranks), node.uplink.up * 8) for node, ranks in part.topology.machines() if node.uplink] == [
        ("node1.cluster", 3, 10e9),
        ("node3.cluster", 2, 5e9),
    ]
    assert [node.name for node in part.topology.root.walk() if node.kind == "switch"] == ["cluster", "east", "west"]
    assert parse(dump(part.topology)).world == 5


@pytest.mark.parametrize(
    ("hosts", "why"),
    [
        (["node1"] * 9, "has 8 ranks on node1.cluster, but 9 have met on node1"),
        (["node1", "vm"], "describes 32 ranks, but 2 have met, on node1, vm; a file of more machines serves a job on"),
        (["vm"], "describes 32 ranks, but 1 have met, on vm; a file of more machines serves"),
    ],
)
def test_a_job_that_is_no_part_of_a_clusters_file_hears_why(hosts: list[str], why: str, tmp_path: Path) -> None:
    from paceline.errors import RendezvousError
    from paceline.runtime.placement import Placements, given

    whole = tmp_path / "cluster.yaml"
    whole.write_text(CLUSTER)
    with pytest.raises(RendezvousError, match=re.escape(f"PACELINE_TOPOLOGY={whole} {why}")):
        Placements(given(str(whole)), [member(rank, host) for rank, host in enumerate(hosts)])


@pytest.mark.parametrize("with_file", [True, False])
def test_places_know_who_shares_cpus(file: Path, with_file: bool) -> None:
    """Two containers of one host, whose ranks may run on CPUs 0 and 1, and on 1 and 2."""
    from paceline.runtime.placement import Placements, given
    from paceline.topology import Cpus

    facts = [("alpha", "one", "3"), ("alpha", "one", "3"), ("beta", "one", "6"), ("beta", "one", "4")]
    members = [member(rank, *said) for rank, said in enumerate([*facts, ("beta", "one", "4")])]
    places = Placements(given(str(file) if with_file else None), members)
    for group in (members, members[1:3]):
        machines = places.of(group).topology.machines()
        assert [node.cpus for node, _ in machines] == [Cpus("one", 3), Cpus("one", 3)]
    apart = [member(rank, host, host, "3") for rank, host in enumerate(["alpha"] * 2 + ["beta"] * 3)]
    machines = Placements(None, apart).of(apart).topology.machines()
    assert [node.cpus for node, _ in machines] == [Cpus("alpha", 2), Cpus("beta", 2)]


def test_the_first_ranks_of_containers_that_share_cpus_are_spread_over_them() -> None:
    """2+2+3 ranks on two CPUs: those who speak for their containers are not all at home on the same one."""
    from paceline.cpu import budget
    from paceline.runtime import cpu_sharing
    from paceline.settings.settings import Settings

    members = [member(rank, host, "one", "3") for rank, host in enumerate(["alpha"] * 2 + ["beta"] * 2 + ["gamma"] * 3)]
    two = budget.budget({0, 1}, None)
    preferred = [cpu_sharing.preferred_cpu(members, me, two, Settings()) for me in members]
    assert preferred == [0, 1, 1, 0, 0, 1, 0]
    assert cpu_sharing.preferred_cpu(members[1:3], members[1], two, Settings()) is None
