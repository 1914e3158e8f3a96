"""Ranks started directly: what they are told, how they end, and that nothing of them is left."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from launched import DEADLINE, SHOW, SLEEPERS, SOURCE, all_gone, environment, facts, gone, pids, program, wait_until

from paceline.launch import job
from paceline.launch.local import LocalJob

FILES = ["rank-0", "rank-1", "orphan-0", "orphan-1"]


def python(folder: Path, text: str, *arguments: str) -> list[str]:
    return [sys.executable, str(program(folder, text)), *arguments]


# Rank 1 ends at once with 7, the others with 3 once the launcher has noticed.
FIRST = """
import os, pathlib, sys, time
first = pathlib.Path(sys.argv[1])
if os.environ["RANK"] == "1":
    first.with_suffix(".part").write_text(str(os.getpid()))
    first.with_suffix(".part").rename(first)
    sys.exit(7)
while not first.exists() or pathlib.Path("/proc", first.read_text()).exists():
    time.sleep(0.01)
sys.exit(3)
"""


def test_what_a_rank_is_told(tmp_path: Path) -> None:
    with LocalJob(2, python(tmp_path, SHOW, str(tmp_path)), environment(MKL_NUM_THREADS="5"), threads=3) as started:
        assert started.wait(DEADLINE) == 0
    env = [dict(facts(tmp_path, rank)["env"]) for rank in (0, 1)]  # type: ignore[call-overload]
    for rank in (0, 1):
        assert (env[rank]["RANK"], env[rank]["LOCAL_RANK"]) == (str(rank), str(rank))
        assert (env[rank]["WORLD_SIZE"], env[rank]["LOCAL_WORLD_SIZE"]) == ("2", "2")
        assert env[rank]["MASTER_ADDR"] == "127.0.0.1"
        assert (env[rank]["OMP_NUM_THREADS"], env[rank]["MKL_NUM_THREADS"]) == ("3", "5")
    assert env[0]["PACELINE_SECRET"] == env[1]["PACELINE_SECRET"] and len(env[0]["PACELINE_SECRET"]) == 64


def test_cores_are_given_by_local_rank(tmp_path: Path) -> None:
    cpu = min(os.sched_getaffinity(0))
    with LocalJob(2, python(tmp_path, SHOW, str(tmp_path)), environment(), cores=f"{cpu};{cpu}") as started:
        assert started.wait(DEADLINE) == 0
    assert facts(tmp_path, 1)["cpus"] == [cpu]


def test_the_code_is_that_of_the_first_rank_to_fail(tmp_path: Path) -> None:
    with LocalJob(3, python(tmp_path, FIRST, str(tmp_path / "first")), environment()) as started:
        assert started.wait(DEADLINE) == 7
        assert str(started.failed) == f"rank 1 (pid {started.processes[1].pid}) exited with code 7"


def test_survivors_of_a_killed_rank_are_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SURVIVORS_GRACE_SECONDS", 0.5)
    with LocalJob(2, python(tmp_path, SLEEPERS, str(tmp_path), "stubborn"), environment()) as started:
        running = pids(tmp_path, FILES)
        os.kill(running[0], signal.SIGKILL)
        assert started.wait(DEADLINE) == 128 + signal.SIGKILL
        assert str(started.failed).endswith("was killed by SIGKILL")
    all_gone(running)


def test_nothing_is_left_after_an_exception(tmp_path: Path) -> None:
    ranks = LocalJob(2, python(tmp_path, SLEEPERS, str(tmp_path), "polite"), environment())
    with pytest.raises(TimeoutError, match=r"these still run: rank 0"), ranks as started:  # noqa: PT012
        running = pids(tmp_path, FILES)
        os.kill(running[1], signal.SIGSTOP)
        started.wait(0.1)
    assert all(map(gone, running))


def test_the_kernel_ends_ranks_whose_launcher_was_killed(tmp_path: Path) -> None:
    text = (
        "import os, sys\nfrom paceline.launch.local import LocalJob\n"
        "with LocalJob(2, sys.argv[1:], dict(os.environ)) as job: job.wait()"
    )
    ranks = python(tmp_path, SLEEPERS, str(tmp_path), "stubborn")
    launcher = subprocess.Popen([sys.executable, "-c", text, *ranks], env=environment())
    try:
        running = pids(tmp_path, FILES)
    finally:
        launcher.kill()
        launcher.wait()
    wait_until(lambda: gone(running[0]) and gone(running[1]), "ranks gone")
    for orphan in running[2:]:  # not the kernel's business: the rank was killed before it could end them
        os.kill(orphan, signal.SIGKILL)


def test_the_port_is_kept_for_rank_0(tmp_path: Path) -> None:
    text = (
        "import os, socket\nport = int(os.environ['MASTER_PORT'])\nwith socket.create_server(('127.0.0.1', port)): pass"
    )
    started = LocalJob(1, python(tmp_path, text), environment())
    port = int(started._commands[0].env["MASTER_PORT"])
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    with started:
        assert started.wait(DEADLINE) == 0


def test_the_port_lies_in_the_range_and_belongs_to_one_job() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        first = taken.getsockname()[1]
        ports = f"{first}-{first + 40}"
        jobs = [LocalJob(1, ["true"], environment(PACELINE_PORTS=ports)) for _ in range(8)]
        found = [int(job._commands[0].env["MASTER_PORT"]) for job in jobs]
        assert len(set(found)) == 8 and all(first < port <= first + 40 for port in found)
        only = environment(PACELINE_PORTS=str(found[0]))
        with pytest.raises(ValueError, match=rf"the ports {found[0]}-{found[0]} \(PACELINE_PORTS\) are all in use"):
            LocalJob(1, ["true"], only)
        for each in jobs:
            each.terminate()
        LocalJob(1, ["true"], only).terminate()


def test_output_goes_to_files(tmp_path: Path) -> None:
    text = "import os, sys\nprint('out', os.environ['RANK'])\nprint('err', file=sys.stderr)"
    with LocalJob(2, python(tmp_path, text), environment(), output=tmp_path) as started:
        assert started.wait(DEADLINE) == 0
    assert (tmp_path / "rank-1.out").read_text() == "out 1\n"
    assert (tmp_path / "rank-0.err").read_text() == "err\n"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with LocalJob(1, [str(tmp_path / "none")], environment(), output=tmp_path) as started:
        assert started.wait(DEADLINE) == 1
    assert "cannot start" in (tmp_path / "rank-0.err").read_text()
    with pytest.raises(ValueError, match="at least one rank"):
        LocalJob(0, ["true"], {})


def test_the_source_is_the_one_under_test() -> None:
    assert Path(job.__file__).is_relative_to(SOURCE)
