"""JAX's own collectives run on Paceline, whose library stands for the MPI that JAX looks for."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import jaxlib
import pytest
from jobs import PROGRAMS, job, run
from launched import finish, paceline_run, wait_until

from paceline.jax import mpi_library


def test_they_give_what_numpy_computes(tmp_path: Path) -> None:
    run(4, PROGRAMS / "jax_own_collectives.py", output=tmp_path)


@pytest.mark.parametrize(
    ("name", "said"),
    [("SIGKILL", r"rank 1 \(host .*\) died"), ("SIGSTOP", "reached its timeout of 4 s .* it waits for rank 1 ")],
)
def test_a_lost_rank_is_named(name: str, said: str, tmp_path: Path) -> None:
    folder = tmp_path / "output"
    folder.mkdir()
    limits = {"PACELINE_TIMEOUT": "4", "PACELINE_START_TIMEOUT": "100"}
    program = PROGRAMS / "jax_losing_a_rank.py"
    with job(2, program, str(tmp_path), name, output=folder, env=limits):
        wait_until((tmp_path / "said").exists, "what JAX raises")
    assert re.search(said, (tmp_path / "said").read_text()), (tmp_path / "said").read_text()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import jax, paceline.jax; paceline.jax.initialize()", "import paceline.jax before jax"),
        (
            "import paceline.jax, jax; paceline.jax.initialize('127.0.0.1:9', num_processes=2, process_id=1)",
            "num_processes=2, but this is rank 0 of 1 by its environment",
        ),
        (
            "import paceline.jax, jax; jax.config.update('jax_num_cpu_devices', 2); paceline.jax.initialize()",
            "JAX has 2 CPU devices in this process, and its collectives through MPI serve one",
        ),
    ],
)
def test_what_cannot_work_is_refused(program: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(mpi_library.VARIABLE, raising=False)  # importing paceline.jax here has set it
    code, _, err = finish(paceline_run("-n", "1", "--", sys.executable, "-c", program))
    assert code != 0
    assert said in err


def test_the_library_has_every_name_that_jax_looks_up() -> None:
    names = re.compile(rb"\x00(MPIX?ABI_\w+|mpiabi_version_\w+|mpiwrapper_\w+)(?=\x00)")
    native = ctypes.CDLL(str(mpi_library.path()))
    found = {
        name.decode() for path in Path(jaxlib.__file__).parent.glob("*.so") for name in names.findall(path.read_bytes())
    }
    assert "MPIABI_Allreduce" in found
    assert sorted(name for name in found if not hasattr(native, name)) == []


def test_a_function_that_jax_does_not_call_is_named() -> None:
    call = f"import ctypes; ctypes.CDLL({str(mpi_library.path())!r}).MPIABI_Bcast()"
    ended = subprocess.run([sys.executable, "-c", call], stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "MPI_Bcast is not one of them" in ended.stderr
