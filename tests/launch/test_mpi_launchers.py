"""A plain script under Open MPI's and MPICH's launchers, which say in their own variables who a rank is."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from launched import environment, finish, program

from paceline_bench.systems import MPI_FILES

RAW_RANKS, TORCH_RANKS = 3, 2

# Sums up, then writes what it knows; with "kill" rank 1 goes and the others write what they are told.
RAW = """
import numpy as np
import paceline

group = paceline.init(timeout=60)
rank, size = group.rank, group.size

def total():
    array = np.full(1000, rank + 1, np.float32)
    group.all_reduce(array)
    return float(array[0])
"""

TORCH = """
import datetime
import torch
import torch.distributed as dist

def join():
    dist.init_process_group("paceline", timeout=datetime.timedelta(seconds=60))

join()
dist.all_reduce(torch.ones(1))
dist.destroy_process_group()
join()
rank, size = dist.get_rank(), dist.get_world_size()

def total():
    tensor = torch.full((1000,), rank + 1.0)
    dist.all_reduce(tensor)
    return tensor[0].item()
"""

REST = """
import os, signal, sys
try:
    text = f"{total()} on {size} ranks"
    if sys.argv[2] == "kill":
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        while True:
            total()
except RuntimeError as error:
    text = str(error)
with open(os.path.join(sys.argv[1], f"rank-{rank}"), "w") as file:
    file.write(text)
"""


def launched(*more: pytest.MarkDecorator) -> pytest.MarkDecorator:
    """A script without a framework under every launcher, and one with torch under one of them, whose test has these
    marks too: what reads the launchers' variables knows nothing of torch."""
    absent = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
    raw = [pytest.param(name, RAW, RAW_RANKS, id=f"{name}-raw") for name in sorted(MPI_FILES)]
    script = "import paceline.torch\n" + TORCH
    torch = pytest.param("openmpi", script, TORCH_RANKS, id="openmpi-torch", marks=[absent, *more])
    return pytest.mark.parametrize(("mpirun", "script", "ranks"), [*raw, torch], indirect=["mpirun"])


@pytest.fixture
def mpirun(request: pytest.FixtureRequest, short_folder: Path) -> tuple[str, dict[str, str]]:
    """The launcher's name, and the environment for it: nothing that torch's own launchers would set."""
    for file in MPI_FILES[request.param]:
        if not (Path(sys.prefix) / file).exists():
            pytest.skip(f"{request.param} is not installed in {sys.prefix}")
    unwanted = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
    env = {name: value for name, value in environment(TMPDIR=str(short_folder)).items() if name not in unwanted}
    if request.param == "openmpi":
        env |= {f"{part}_PREFIX": sys.prefix for part in ("OPAL", "PMIX", "PRTE")}
        for part in ("OMPI", "PRTE"):
            env |= {f"{part}_ALLOW_RUN_AS_ROOT": "1", f"{part}_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return request.param, env


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """Where launchers keep their sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def launch(mpirun: tuple[str, dict[str, str]], ranks: int, *argv: str) -> tuple[int, str, str]:
    name, env = mpirun
    options = ["--personality", "ompi", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
    process = subprocess.Popen(
        [Path(sys.prefix) / MPI_FILES[name][1], *(options if name == "openmpi" else []), "-n", str(ranks), *argv],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return finish(process, 250)


@launched()
def test_nothing_but_the_launchers_environment(
    tmp_path: Path, mpirun: tuple[str, dict[str, str]], script: str, ranks: int
) -> None:
    code, out, err = launch(mpirun, ranks, sys.executable, str(program(tmp_path, script + REST)), str(tmp_path), "stay")
    assert code == 0, out + err
    for rank in range(ranks):
        assert (tmp_path / f"rank-{rank}").read_text() == f"{ranks * (ranks + 1) / 2} on {ranks} ranks"


@launched(pytest.mark.verify)
def test_a_killed_rank_is_named(tmp_path: Path, mpirun: tuple[str, dict[str, str]], script: str, ranks: int) -> None:
    # A launcher that sees a rank die ends the others at once; behind the shell they have time to speak.
    shell = ["sh", "-c", '"$@" || true', "sh"]
    script_path = str(program(tmp_path, script + REST))
    code, out, err = launch(mpirun, ranks, *shell, sys.executable, script_path, str(tmp_path), "kill")
    assert code == 0, out + err
    for rank in {*range(ranks)} - {1}:
        report = (tmp_path / f"rank-{rank}").read_text()
        assert "rank 1 (host " in report and ") died" in report, report
    assert not (tmp_path / "rank-1").exists()
