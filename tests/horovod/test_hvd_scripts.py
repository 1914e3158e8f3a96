"""Whole scripts, started as their users start them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


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


def test_a_failed_collective_is_recovered_from_the_last_commit() -> None:
    done = start("recover.py", "mismatch")
    assert done.returncode == 0, done.stderr
    report = [[4, 5], [2], "rank 0"]
    left = [list(range(8, 24))[rank::2] for rank in range(2)]  # four batches of one, on two ranks, were committed
    assert done.stdout.strip() == str([[*report, left[0]], [*report, left[1]]])


def test_a_lost_rank_ends_the_job_with_one_sentence() -> None:
    done = start("recover.py", "kill")
    assert done.returncode != 0
    words = r"RuntimeError: .*rank 1 \(host .*\).*\. The job cannot continue without it.*torchrun --max-restarts N"
    assert re.search(words, done.stderr), done.stderr


def test_what_horovodrun_tells_is_enough() -> None:
    program = (
        "import paceline.horovod.torch as h; h.init(); print(h.rank(), h.size(), h.allgather_object(h.local_rank()))"
    )
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
            subprocess.Popen(
                [sys.executable, "-c", program],
                env={**shared, "HOROVOD_RANK": str(rank), "HOROVOD_LOCAL_RANK": str(rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(2)
        ]
        try:
            told = [rank.communicate(timeout=250)[0] for rank in ranks]
        finally:
            for rank in ranks:
                rank.kill()
                rank.wait()
    assert told == ["0 2 [0, 1]\n", "1 2 [0, 1]\n"]


def test_under_torchrun_through_paceline_run() -> None:
    command = [sys.executable, "-m", "paceline", "run", "-n", "2"]
    environment = {**os.environ, "PACELINE_TIMEOUT": "60", "OMP_NUM_THREADS": "1"}
    command.append(str(HERE / "mnist.py"))
    learned(subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment))
