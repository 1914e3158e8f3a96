"""`env://` where the launcher tells a rank who it is in Open MPI's words; real launchers are in tests/cli."""

from __future__ import annotations

import os
import re
import socket
import sys
import time
from pathlib import Path

from jobs import TORCH, warm
from warm_python import Forked

from paceline.torch import register

PROGRAM = """
import datetime, psutil, sys, torch, torch.distributed as dist, paceline.torch
dist.init_process_group("paceline", timeout=datetime.timedelta(seconds=60))
tensor = torch.ones(1)
dist.all_reduce(tensor)
print(dist.get_rank(), dist.get_world_size(), tensor.item())
listening = [c.laddr.ip for c in psutil.Process().net_connections("tcp") if c.status == "LISTEN"]
print(*listening, file=sys.stderr)
"""


def start(folder: Path, rank: int, size: int, **more: str) -> Forked:
    """One rank on a machine of its own, as Open MPI tells it."""
    told = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "PACELINE_PORTS")
    env = {name: value for name, value in os.environ.items() if name not in told}
    env |= {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": str(size), "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
    env |= {"OMPI_COMM_WORLD_LOCAL_SIZE": "1", "PMIX_NAMESPACE": f"prterun-{os.getpid()}@1", **more}
    program = folder / "program.py"
    if not program.exists():
        program.write_text(PROGRAM)
    return warm(rank % 2, TORCH).start([str(program)], env, folder / f"{rank}.out", folder / f"{rank}.err")


def finish(folder: Path, ranks: list[Forked]) -> list[tuple[str, str]]:
    """What each of them, in the order of their numbers, has written once all have ended."""
    try:
        for rank in ranks:
            rank.wait(250)
    finally:
        for rank in ranks:
            rank.kill()
    return [(path.read_text(), path.with_suffix(".err").read_text()) for path in sorted(folder.glob("*.out"))]


def meet(folder: Path, *machines: str, **more: str) -> list[str]:
    """Two ranks meet; what each writes to stderr. machines: their names, where they are to share no memory."""
    names = [{"PACELINE_MACHINE": name} for name in machines] or [{}, {}]
    ranks = [start(folder, rank, 2, MASTER_ADDR="127.0.0.1", **names[rank], **more) for rank in range(2)]
    told = finish(folder, ranks)
    assert [out for out, _ in told] == ["0 2 2.0\n", "1 2 2.0\n"], told
    return [error for _, error in told]


def said(file: Path, words: str) -> str:
    """The first whole line with these words, once there is one."""
    end = time.monotonic() + 250
    while time.monotonic() < end:
        for line in file.read_text().splitlines(keepends=True):
            if words in line and line.endswith("\n"):
                return line
        time.sleep(0.02)
    raise AssertionError(file.read_text())


def test_several_machines_need_only_the_address_of_the_first(tmp_path: Path) -> None:
    errors = meet(tmp_path, "a", "b", PACELINE_SECRET="s" * 16)
    # torch's store, on this address alone
    assert [error.splitlines()[-1].split() for error in errors] == [["127.0.0.1"], []]
    assert not any("PACELINE_SECRET" in error for error in errors)


def test_a_port_is_used_if_one_is_given_and_between_machines_rank_0_warns_that_anybody_may_come(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    first, second = meet(tmp_path, "a", "b", MASTER_PORT=str(port))
    store = f"torch's store, 127.0.0.1:{port}"
    assert first.count(f"PACELINE_SECRET is not set: any process that reaches {store} can ") == 1
    assert "PACELINE_SECRET" not in second


def test_without_an_address_the_error_says_what_to_set(tmp_path: Path) -> None:
    ((_, error),) = finish(tmp_path, [start(tmp_path, 1, 2)])
    assert "nothing says where rank 0 of the 2 ranks is (launcher: Open MPI): set MASTER_ADDR" in error


def test_every_rank_names_the_one_that_is_late(tmp_path: Path) -> None:
    """And not each other."""
    variables = {"MASTER_ADDR": "127.0.0.1", "PACELINE_STALL_SECONDS": "0.5"}
    early = [start(tmp_path, rank, 3, **variables) for rank in range(2)]
    try:
        for rank in range(2):
            first = said(tmp_path / f"{rank}.err", "/3 joined, missing rank ")
            assert "2/3 joined, missing rank 2 (joined: rank 0 on " in first
            assert re.search(r", rank 1 on \S+\); they meet at 127\.0\.0\.1:\d+$", first), first
    finally:
        told = finish(tmp_path, [*early, start(tmp_path, 2, 3, **variables)])
    assert [out for out, _ in told] == [f"{rank} 3 3.0\n" for rank in range(3)], told


def test_one_rank_alone(tmp_path: Path) -> None:
    assert finish(tmp_path, [start(tmp_path, 0, 1)])[0][0] == "0 1 1.0\n"


def test_what_torch_knows_wins(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    torchs = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    assert finish(tmp_path, [start(tmp_path, 1, 2, **torchs)])[0][0] == "0 1 1.0\n"


AGAIN = """
import os, torch.distributed as dist, paceline.torch
agents = [dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False) for _ in range(2)]
stores = []

def meet(port):
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("paceline")
    store = dist.distributed_c10d._get_default_store()
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    stores.append(store)
    dist.destroy_process_group()

for agent in (agents[0], agents[0], agents[1], agents[0]):
    meet(agent.port)
place = agents[1].host, agents[1].port
del agents[1], agent
again = dist.TCPStore(*place, is_master=True, wait_for_workers=False)
meet(again.port)
print([stores.index(store) for store in stores])
"""


def test_a_process_connects_to_its_agents_store_once(tmp_path: Path) -> None:
    """As long as it is that agent, and serves it."""
    (tmp_path / "program.py").write_text(AGAIN)
    torchrun = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    ((out, error),) = finish(tmp_path, [start(tmp_path, 0, 1, **torchrun)])
    assert out == "[0, 0, 2, 0, 4]\n", error


def test_extending_twice_is_extending_once() -> None:
    register()
    handler = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers["env"]
    register()
    assert sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers["env"] is handler
