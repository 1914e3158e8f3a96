"""Real processes on several machines, which are network namespaces: the address chosen, and what errors say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from paceline.lab.lab import Lab, switched

PORT = "28471"
RANK = """
import sys
import numpy
import paceline
from paceline.errors import RendezvousError
try:
    with paceline.init(timeout=float(sys.argv[1])) as group:
        value = numpy.ones(4, numpy.float32)
        group.all_reduce(value)
        print("sum", value[0])
except RendezvousError as error:
    print("error", error)
"""

pytestmark = pytest.mark.needs("a lab")


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab(switched([1, 1])) as made:
        for name in (machine.namespace for machine in made.machines):
            address = "172.17.0.1/16"
            ip(name, "link", "add", "docker0", "type", "bridge")
            ip(name, "address", "add", address, "dev", "docker0")
            ip(name, "link", "set", "docker0", "up")
        yield made


def ip(namespace: str, *arguments: str) -> None:
    subprocess.run(["ip", "-n", namespace, *arguments], check=True, timeout=30)


def job(lab: Lab, where: dict[int, int], timeout: float = 30.0, **environ: str) -> list[tuple[str, str]]:
    """Run the ranks of `where` on their machines; what each printed and logged."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PACELINE_", "SLURM_", "OMPI_"))}
    common: dict[str, str] = {
        **clean,
        "WORLD_SIZE": str(len(where)),
        "MASTER_ADDR": lab.machines[0].address,
        "MASTER_PORT": PORT,
        "PACELINE_LOG": "info",
        **environ,
    }
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [
        subprocess.Popen(
            [*lab.exec(machine), sys.executable, "-c", RANK, str(timeout)],
            env={**common, "RANK": str(rank)},
            **pipes,
        )
        for rank, machine in where.items()
    ]
    try:
        return [rank.communicate(timeout=250) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_the_interface_between_the_machines_is_chosen(lab: Lab) -> None:
    results = job(lab, {0: 0, 1: 0, 2: 1}, PACELINE_PORTS="40000-40002", PACELINE_SECRET="0123456789abcdef")
    for out, err in results:
        assert out == "sum 3.0\n", err
        assert "docker0" not in err
        assert "127.0.0.1" not in err
    for _, err in results[:2]:
        assert f"listens on eth0 {lab.machines[0].address}" in err
    assert "PACELINE_SECRET is not set" not in results[0][1]


def test_without_a_secret_it_works_with_a_warning(lab: Lab) -> None:
    results = job(lab, {0: 0, 1: 1})
    assert [out for out, _ in results] == ["sum 2.0\n"] * 2
    assert "PACELINE_SECRET is not set" in results[0][1]


def test_the_user_chooses_another_interface(lab: Lab) -> None:
    for number, name in enumerate(machine.namespace for machine in lab.machines):
        ip(name, "address", "add", f"10.78.0.{number + 1}/24", "dev", "eth0")
    results = job(lab, {0: 0, 1: 1}, PACELINE_INTERFACE="10.78.0.0/16", MASTER_ADDR="10.78.0.1")
    assert [out for out, _ in results] == ["sum 2.0\n"] * 2
    assert "listens on eth0 10.78.0.1: PACELINE_INTERFACE" in results[0][1]
    apart = job(lab, {0: 0, 1: 1}, PACELINE_INTERFACE="10.78.0.0/16")
    assert [out for out, _ in apart] == ["sum 2.0\n"] * 2, apart
    assert f"the store of rank 0 listens on eth0 {lab.machines[0].address}: MASTER_ADDR names it" in apart[0][1]
    assert "listens on eth0 10.78.0.1: PACELINE_INTERFACE" in apart[0][1]
    wrong = job(lab, {0: 0, 1: 1}, timeout=3.0, PACELINE_INTERFACE="ib0")[0][0]
    assert "PACELINE_INTERFACE=ib0 fits no address" in wrong
    assert f"eth0 {lab.machines[0].address}" in wrong
    assert "docker0 172.17.0.1" in wrong


def test_a_filter_is_told_with_both_endpoints(lab: Lab) -> None:
    """Packets to rank 0's machine vanish: its hardware address is wrong in the other's table."""
    here, there = (machine.address for machine in lab.machines)
    ip(lab.machines[1].namespace, "neigh", "replace", here, "lladdr", "02:00:00:00:00:99", "dev", "eth0")
    results = job(lab, {0: 0, 1: 1}, timeout=3.0)
    assert "1/2 joined within 3 s, missing rank 1" in results[0][0]
    assert re.search(rf"from {there} within 3 s: {here}:{PORT}: no answer: filtered", results[1][0])


def test_refused_is_told_with_both_endpoints(lab: Lab) -> None:
    here, there = (machine.address for machine in lab.machines)
    ((out, _),) = job(lab, {1: 1}, timeout=2.0, WORLD_SIZE="2")
    assert f"from {there} within 2 s: {here}:{PORT}: refused" in out
