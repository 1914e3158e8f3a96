"""Whole scripts, started as their users start them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def start(script: str, *arguments: str, ranks: int = 2) -> subprocess.CompletedProcess[str]:
    launcher = [sys.executable, "-m", "paceline.horovod.run", "-np", str(ranks)]
    command = [*launcher, sys.executable, str(HERE / script), *arguments]
    environment = {**os.environ, "PACELINE_TIMEOUT": "30"}
    return subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment)


@pytest.mark.parametrize("option", ["", "--fp16-allreduce", "--use-adasum", "--gradient-predivide-factor=2"])
def test_horovods_mnist_script(option: str) -> None:
    done = start("mnist.py", *option.split())
    assert done.returncode == 0, done.stderr
    accuracies = [float(each) for each in re.findall(r"Accuracy: ([0-9.]+)%", done.stdout)]
    assert len(accuracies) == 2 and accuracies[-1] > 80.0, done.stdout
    assert "[0/256]" in done.stdout


def test_a_failed_collective_is_recovered_from_the_last_commit() -> None:
    done = start("recover.py", "mismatch")
    assert done.returncode == 0, done.stderr
    report = [[4, 5], [2], "rank 0"]
    left = [list(range(8, 24))[rank::2] for rank in range(2)]  # four batches of one, on two ranks, were committed
    assert done.stdout.strip() == str([[*report, left[0]], [*report, left[1]]])


def test_a_lost_rank_ends_the_job_with_one_sentence() -> None:
    done = start("recover.py", "kill")
    assert done.returncode != 0
    words = r"RuntimeError: .*rank 1 \(host .*\).*\. The job cannot go on without it.*torchrun --max-restarts N"
    assert re.search(words, done.stderr), done.stderr
