"""Real processes on several machines, which are network namespaces: the address chosen, and what errors say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from paceline.lab.namespaces import Machines

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

pytestmark = pytest.mark.requires_root_network


@pytest.fixture
def machines() -> Iterator[Machines]:
    with Machines(2) as made:
        for name, address in zip(made.names, ("172.17.0.1/16", "172.17.0.1/16"), strict=True):
            ip(name, "link", "add", "docker0", "type", "bridge")
            ip(name, "address", "add", address, "dev", "docker0")
            ip(name, "link", "set", "docker0", "up")
        yield made


def ip(namespace: str, *arguments: str) -> None:
    subprocess.run(["ip", "-n", namespace, *arguments], check=True, timeout=30)


def job(machines: Machines, where: dict[int, int], timeout: float = 30.0, **environ: str) -> list[tuple[str, str]]:
    """Run the ranks of `where` on their machines; what each printed and logged."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PACELINE_", "SLURM_", "OMPI_"))}
    common: dict[str, str] = {
        **clean,
        "WORLD_SIZE": str(len(where)),
        "MASTER_ADDR": machines.addresses[0],
        "MASTER_PORT": PORT,
        "PACELINE_LOG": "info",
        **environ,
    }
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [
        subprocess.Popen(
            [*machines.exec(machine), sys.executable, "-c", RANK, str(timeout)],
            env={**common, "RANK": str(rank)},
            **pipes,
        )
        for rank, machine in where.items()
    ]
    try:
        return [rank.communicate(timeout=100) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_the_interface_between_the_machines_is_chosen(machines: Machines) -> None:
    results = job(machines, {0: 0, 1: 0, 2: 1}, PACELINE_PORTS="40000-40002", PACELINE_SECRET="0123456789abcdef")
    for out, err in results:
        assert out == "sum 3.0\n", err
        assert "docker0" not in err
        assert "127.0.0.1" not in err
    for _, err in results[:2]:
        assert f"listens on eth0 {machines.addresses[0]}" in err
    assert "PACELINE_SECRET is not set" not in results[0][1]


def test_without_a_secret_it_works_with_a_warning(machines: Machines) -> None:
    results = job(machines, {0: 0, 1: 1})
    assert [out for out, _ in results] == ["sum 2.0\n"] * 2
    assert "PACELINE_SECRET is not set" in results[0][1]


def test_the_user_chooses_another_interface(machines: Machines) -> None:
    for number, name in enumerate(machines.names):
        ip(name, "address", "add", f"10.78.0.{number + 1}/24", "dev", "eth0")
    results = job(machines, {0: 0, 1: 1}, PACELINE_INTERFACE="10.78.0.0/16", MASTER_ADDR="10.78.0.1")
    assert [out for out, _ in results] == ["sum 2.0\n"] * 2
    assert "listens on eth0 10.78.0.1: PACELINE_INTERFACE" in results[0][1]
    wrong = job(machines, {0: 0, 1: 1}, timeout=3.0, PACELINE_INTERFACE="ib0")[0][0]
    assert "PACELINE_INTERFACE=ib0 fits no address" in wrong
    assert f"eth0 {machines.addresses[0]}" in wrong
    assert "docker0 172.17.0.1" in wrong


def test_a_filter_is_told_with_both_endpoints(machines: Machines) -> None:
    """Packets to rank 0's machine vanish: its hardware address is wrong in the other's table."""
    here, there = machines.addresses
    ip(machines.names[1], "neigh", "replace", here, "lladdr", "02:00:00:00:00:99", "dev", "eth0")
    results = job(machines, {0: 0, 1: 1}, timeout=3.0)
    assert "1/2 joined within 3 s, missing rank 1" in results[0][0]
    assert re.search(rf"from {there} within 3 s: tcp {here} port {PORT}: no answer: filtered", results[1][0])


def test_refused_is_told_with_both_endpoints(machines: Machines) -> None:
    here, there = machines.addresses
    ((out, _),) = job(machines, {1: 1}, timeout=2.0, WORLD_SIZE="2")
    assert f"from {there} within 2 s: tcp {here} port {PORT}: refused" in out
