"""`paceline check` end to end: real ranks, and links whose speed is known because the kernel holds them to it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ahead import AHEAD

from paceline.lab.lab import Lab
from paceline.launch import tree
from paceline.launch.job import Command, Job, wrapped
from paceline.launch.threads import thread_variables
from paceline.topology import parse, read

SOURCE = Path(__file__).resolve().parents[2] / "src"
THREE = """
name: three
children:
  - {machine: alpha, ranks: 2, uplink: 200 Mbit/s}
  - {machine: beta, ranks: 1, uplink: {up: 200 Mbit/s, down: 100 Mbit/s}}
  - {machine: gamma, ranks: 1, uplink: {up: 100 Mbit/s, down: 200 Mbit/s}}
"""
RACKS = """
name: racks
children:
  - switch: east
    uplink: 40 Mbit/s
    children:
      - {machine: alpha, ranks: 1, uplink: 40 Mbit/s}
      - {machine: beta, ranks: 1, uplink: 40 Mbit/s}
  - switch: west
    uplink: 40 Mbit/s
    children:
      - {machine: gamma, ranks: 1, uplink: 40 Mbit/s}
      - {machine: delta, ranks: 1, uplink: 40 Mbit/s}
"""
CHECK = [sys.executable, "-m", "paceline", "check"]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    # On a busy machine ranks may take some seconds to meet, which they would say.
    return {**kept, "PYTHONPATH": str(SOURCE), "PACELINE_STALL_SECONDS": "100", **thread_variables(1, kept)}


def check(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr."""
    done = subprocess.run([*CHECK, *words], env=environment(), capture_output=True, text=True, timeout=250)
    return done.returncode, done.stdout, done.stderr


def test_ranks_of_its_own_on_this_machine(tmp_path: Path) -> None:
    out = tmp_path / "found.yaml"
    code, text, err = check("-n", "3", "--out", str(out))
    assert (code, err) == (0, "")
    topology = read(out)
    assert topology.world == 3 and topology.root.kind == "machine"
    local = topology.root.children[0].uplink
    assert 1e7 < local.up < 1e12 and 0 < local.latency < 1e-2
    assert "3 ranks, each with" in text and "nothing is slow" in text and f"written to {out}" in text


def test_a_single_rank_has_no_links() -> None:
    code, out, err = check()
    assert (code, out) == (2, "")
    assert (
        err == "paceline check: a single rank has no links to measure; start it as a job (see --help), or with -n 4\n"
    )


def test_a_file_that_cannot_be_written() -> None:
    """Said before anything is measured, where it can be."""
    code, _, err = check("-n", "2", "--out", "/nowhere/found.yaml")
    assert (code, err) == (2, "paceline check: cannot write /nowhere/found.yaml: No such file or directory\n")
    code, _, err = check("-n", "2", "--out", "/")
    assert (code, err) == (2, "paceline check: cannot write /: Is a directory\n")


def said_in_lab(topology: str, where: list[int], out: Path) -> str:
    """What rank 0 of a check says that runs on these machines and ends well; its outputs lie beside `out`."""
    with (
        Lab(parse(topology, "this test")) as lab,
        Job(commands(lab, where, out), tree.new_mark(environment()), output=out.parent) as job,
    ):
        code = job.wait(250)
    text = (out.parent / "rank-0.out").read_text()
    assert code == 0, text + "".join(path.read_text() for path in sorted(out.parent.glob("*.err")))
    return text


@pytest.mark.verify
@pytest.mark.needs("a lab")
def test_links_held_to_their_rate_are_found_again(tmp_path: Path) -> None:
    up, down = [200, 200, 100], [200, 100, 200]  # Mbit/s
    where = [0, 1, 0, 2]  # the ranks of a machine need not be numbered in a row
    out = tmp_path / "found.yaml"
    text = said_in_lab(THREE, where, out)
    topology = read(out)
    links = [machine.uplink for machine, _ in topology.machines()]
    # On a busy machine a measurement is some percent off; 25 % still tell the links apart.
    assert [link.up * 8e-6 for link in links] == pytest.approx(up, rel=0.25)
    assert [link.down * 8e-6 for link in links] == pytest.approx(down, rel=0.25)
    assert [len(ranks) for _, ranks in topology.machines()] == [2, 1, 1]
    assert all(link.latency < 2e-3 for link in links)
    assert "these are the job's ranks 0, 2, 1, 3, in this order" in text
    slow = [line for line in text.splitlines() if line.startswith("slow link: ")]
    assert len(slow) == 2
    assert re.fullmatch(r"slow link: beta receives at \d+(\.\d)? Mbit/s, \d+ % of the others' median .*", slow[0])
    assert re.fullmatch(r"slow link: gamma sends at \d+(\.\d)? Mbit/s, \d+ % of the others' median .*", slow[1])
    assert "slow path" not in text


@pytest.mark.verify
@pytest.mark.needs("a lab")
def test_switches_whose_links_are_shared_are_found(tmp_path: Path) -> None:
    where = [0, 2, 1, 3]
    out = tmp_path / "found.yaml"
    text = said_in_lab(RACKS, where, out)
    switches = {
        tuple(machine.name for machine in node.children): node.uplink
        for node in read(out).root.children
        if node.kind == "switch"
    }
    assert set(switches) == {("alpha", "beta"), ("gamma", "delta")}, text
    for link in switches.values():
        # What TCP flows that contend get together varies, on busy cores so much that one way may go unproven.
        assert link is not None and min(link.up, link.down) * 8e-6 == pytest.approx(38, rel=0.4)
    assert "these are the job's ranks 0, 2, 1, 3, in this order" in text
    assert "shared link: alpha, beta, below switch-1, " in text


def commands(lab: Lab, where: list[int], out: Path) -> list[Command]:
    """`paceline check` on every rank, rank r being on machine where[r]."""
    made = []
    for rank, machine in enumerate(where):
        who = {
            "RANK": str(rank),
            "LOCAL_RANK": str(where[:rank].count(machine)),
            "WORLD_SIZE": str(len(where)),
            "LOCAL_WORLD_SIZE": str(where.count(machine)),
            "MASTER_ADDR": lab.machines[0].address,
            "MASTER_PORT": "29500",
        }
        argv = [*lab.exec(machine), *CHECK, "--out", str(out)]
        program = [*AHEAD, *wrapped(argv, death_signal=signal.SIGKILL, parent=os.getpid())]
        made.append(Command(program, {**environment(), **who}, f"rank {rank}"))
    return made
