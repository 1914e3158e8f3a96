"""Machines that lack something: shared memory, CPUs, ports, a way. The job is done, or all ranks give one reason."""

from __future__ import annotations

import random
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
from needs import ONE_CPU, control_group, inside
from played import Play, listens

from paceline.lab.lab import Lab
from paceline.topology import parse

FIVE = 5
TWO_MACHINES = """
children:
  - {machine: alpha, ranks: 2, uplink: 1 Gbit/s}
  - {machine: beta, ranks: 1, uplink: 1 Gbit/s}
"""
NOWHERE = "10.99.0.1"


def together(play: Play, ranks: int, *words: str, under: tuple[str, ...]) -> None:
    """Ranks that know that they share a machine."""
    for rank in range(ranks):
        play.start(rank, *words, under=under, PACELINE_MACHINE="one")
    play.everybody("met")


@pytest.mark.needs("mounts of its own")
def test_64_mb_of_shared_memory(tmp_path: Path) -> None:
    """As in a container: the buffers are larger than all of /dev/shm, and nothing is in it."""
    mount = 'mount -t tmpfs -o size=64m tmpfs /dev/shm && exec "$@"'
    with Play(2, tmp_path) as play:
        together(play, 2, "--count=20000000", under=("unshare", "--mount", "sh", "-c", mount, "sh"))
        for rank in play.ranks.values():
            assert not list(Path(f"/proc/{rank.pid}/root/dev/shm").iterdir())
        play.finish()


@pytest.mark.needs("a limit of CPUs")
def test_a_cgroup_of_one_cpu(tmp_path: Path) -> None:
    with control_group("cpu", ONE_CPU) as folder, Play(4, tmp_path) as play:
        together(play, 4, under=inside(folder))
        play.finish()


@pytest.mark.parametrize("taken", [3, 4])
def test_five_ports(taken: int, tmp_path: Path) -> None:
    """Two of three ranks on one address listen: two ports suffice, one does not."""
    with ExitStack() as stack:
        first = _five_free_ports()
        for port in range(first, first + taken):
            stack.enter_context(socket.create_server(("127.0.0.1", port)))
        play = stack.enter_context(Play(3, tmp_path, PACELINE_PORTS=f"{first}-{first + FIVE - 1}"))
        for rank in range(3):
            play.start(rank)
        if taken == 3:
            play.everybody("met")
            play.finish()
        else:
            reason = f"the ports {first}-{first + FIVE - 1} (PACELINE_PORTS) are all in use"
            assert all(reason in rank.error()[1] for rank in play.ranks.values())
        assert not any(listens(("127.0.0.1", port)) for port in range(first + taken, first + FIVE))


@pytest.mark.needs("a lab")
def test_an_interface_that_leads_nowhere(tmp_path: Path) -> None:
    """The rank that called in vain knows why, and all others say the same."""
    with Lab(parse(TWO_MACHINES)) as lab, Play(3, tmp_path, PACELINE_TIMEOUT="6") as play:
        beta = lab.machines[1].namespace
        for words in (
            "link add nowhere0 type bridge",
            f"address add {NOWHERE}/24 dev nowhere0",
            "link set nowhere0 up",
        ):
            subprocess.run(["ip", "-n", beta, *words.split()], check=True)
        at = lab.machines[0].address, play.store[1]
        for rank, machine in enumerate((0, 1, 0)):
            interface = {"PACELINE_INTERFACE": "nowhere0"} if machine else {}
            play.start(rank, "--late", store=at, under=tuple(lab.exec(machine)), PACELINE_MACHINE="", **interface)
        play.everybody("ready")
        for played in play.ranks.values():
            played.say()
        told = [played.error()[1] for played in play.ranks.values()]
    (reason,) = {message[message.index("cannot reach rank 1 (") :] for message in told}
    assert f" within 6 s: {NOWHERE}:" in reason


def _five_free_ports() -> int:
    """The first of them, where neither the kernel nor a job takes ports that nobody named."""
    while True:
        first = random.randrange(10000, 20000 - FIVE)
        with ExitStack() as stack:
            try:
                for port in range(first, first + FIVE):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
        return first
