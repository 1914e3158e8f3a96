"""Whole scripts; those of Horovod's examples are started as their users start them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import TORCH, job, warm, words

HERE = Path(__file__).parent
WHO = """
import sys
import paceline.horovod.torch as hvd
hvd.init()
sys.stdout.write(f"{hvd.rank()} {hvd.size()} {hvd.allgather_object(hvd.local_rank())}\\n")
"""


def start(script: str, *arguments: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "paceline.horovod.run", "-np", str(ranks)]
    command = [*launcher, sys.executable, str(HERE / script), *arguments]
    environment = {**os.environ, "PACELINE_TIMEOUT": "30"}
    return subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)


def learned(done: subprocess.CompletedProcess[str]) -> None:
    """Fails unless the script has trained on half of the samples each rank, and learned."""
    assert done.returncode == 0, done.stderr
    accuracies = [float(each) for each in re.findall(r"Accuracy: ([0-9.]+)%", done.stdout)]
    assert len(accuracies) == 2 and accuracies[-1] > 80.0, done.stdout
    assert "[0/256]" in done.stdout


@pytest.mark.parametrize(
    "option",
    ["--use-adasum", pytest.param("--fp16-allreduce --gradient-predivide-factor=2", marks=pytest.mark.verify)],
)
def test_horovods_mnist_script(option: str) -> None:
    learned(start("mnist.py", *option.split()))


def test_a_failed_collective_is_recovered_from_the_last_commit(tmp_path: Path) -> None:
    with job(2, HERE / "recover.py", "mismatch", output=tmp_path, imports=TORCH) as running:
        assert running.wait(250) == 0, words(tmp_path)
    report = [[4, 5], [2], "rank 0"]
    left = [list(range(8, 24))[rank::2] for rank in range(2)]  # four batches of one, on two ranks, were committed
    assert (tmp_path / "rank-0.out").read_text().strip() == str([[*report, left[0]], [*report, left[1]]])


def test_a_lost_rank_ends_the_job_with_one_sentence(tmp_path: Path) -> None:
    with job(2, HERE / "recover.py", "kill", output=tmp_path, imports=TORCH) as running:
        assert running.processes[0].wait(250) != 0, words(tmp_path)
    said = r"RuntimeError: .*rank 1 \(host .*\).*\. The job cannot continue without it.*torchrun --max-restarts N"
    assert re.search(said, (tmp_path / "rank-0.err").read_text()), words(tmp_path)


def test_what_horovodrun_tells_is_enough(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WHO)
    outputs = [(tmp_path / f"{rank}.out", tmp_path / f"{rank}.err") for rank in range(2)]
    with socket.socket() as rendezvous:  # held, so that no other job has this name
        rendezvous.bind(("127.0.0.1", 0))
        shared = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HOROVOD_", "RANK"))},
            "HOROVOD_SIZE": "2",
            "HOROVOD_LOCAL_SIZE": "2",
            "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous.getsockname()[1]),
            "HOROVOD_CONTROLLER": "gloo",
        }
        ranks = [
            warm(rank, TORCH).start(
                [str(program)], {**shared, "HOROVOD_RANK": str(rank), "HOROVOD_LOCAL_RANK": str(rank)}, *files
            )
            for rank, files in enumerate(outputs)
        ]
        try:
            codes = [rank.wait(250) for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
    assert codes == [0, 0], [error.read_text() for _, error in outputs]
    assert [out.read_text() for out, _ in outputs] == ["0 2 [0, 1]\n", "1 2 [0, 1]\n"]


def test_under_torchrun_through_paceline_run(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(WHO)
    command = [sys.executable, "-m", "paceline", "run", "-n", "2", str(program)]
    environment = {**os.environ, "PACELINE_TIMEOUT": "60", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["0 2 [0, 1]", "1 2 [0, 1]"], done.stdout
