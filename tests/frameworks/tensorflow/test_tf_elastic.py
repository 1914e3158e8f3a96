"""Elastic jobs of TensorFlow and Keras as real processes: a rank is killed, a rank comes, and training goes on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from elastic_jobs import nothing_runs, run, said, started, wait_until

HERE = Path(__file__).parent
LOST = r"elastic: rank 1 \(pid \d+\) was killed by SIGKILL\n(?s:.*)elastic: round 2 with 1 rank"
KERAS = pytest.mark.parametrize("legacy", ["0", "1"], ids=["keras-3", "keras-2"])
DEADLINE = 800.0
"""Seconds for a job: on a machine with much else to do TensorFlow takes minutes to start."""
pytestmark = pytest.mark.timeout(900)


def program(folder: Path, script: str, *arguments: str) -> list[str]:
    return [sys.executable, str(HERE / script), str(folder), *arguments]


def variables(folder: Path, legacy: str = "0") -> dict[str, str]:
    return {"TMPDIR": str(folder), "TF_USE_LEGACY_KERAS": legacy, "PACELINE_START_TIMEOUT": "300"}


def when_rank_1_is_killed(folder: Path, script: list[str], legacy: str = "0") -> str:
    """What rank 0 prints."""
    options = ["-np", "2", "--min-np", "1", *script]
    code, out, err = run(folder, *options, timeout=300, deadline=DEADLINE, **variables(folder, legacy))
    assert code == 0, err
    assert re.search(LOST, err), err
    assert nothing_runs(folder)
    return out


def test_a_function_goes_on_from_the_last_commit_when_a_rank_is_killed(tmp_path: Path) -> None:
    out = when_rank_1_is_killed(tmp_path, program(tmp_path, "elastic_tape.py"))
    # Two committed steps of two ranks, then four of one.
    assert out == f"[0] 0 0 1 [1] {[2 * 2.0 + 4 * 1.0] * 2} True\n"


@KERAS
def test_keras_goes_on_from_the_last_commit_when_a_rank_is_killed(legacy: str, tmp_path: Path) -> None:
    out = when_rank_1_is_killed(tmp_path, program(tmp_path, "elastic_fit.py", "kill"), legacy)
    # Six batches of two ranks, then two whole epochs of one: Keras begins the epoch that was broken off again.
    assert out == f"[0] 0 1 {[(2, 0, 0), (1, 1, 1)]} 3 {[[6 * 2.0 + 2 * 4 * 1.0]]}\n"


@KERAS
def test_keras_goes_on_where_it_was_when_a_rank_comes(legacy: str, tmp_path: Path) -> None:
    hosts, found = tmp_path / "hosts", tmp_path / "found"
    hosts.write_text("localhost:1\n")
    options = ["-np", "1", "--min-np", "1", "--host-discovery-script", f"cat {hosts}"]
    script = program(tmp_path, "elastic_fit.py", "grow")
    with started(tmp_path, *options, *script, timeout=300, **variables(tmp_path, legacy)) as launcher:
        wait_until(lambda: (tmp_path / "holding").exists(), DEADLINE / 2)
        found.write_text("localhost:2\n")
        found.rename(hosts)
        assert launcher.wait(timeout=DEADLINE / 2) == 0, said(tmp_path)
    weight = [[6 * 1.0 + 2 * 4 * 2.0]]
    assert sorted((tmp_path / "out").read_text().splitlines()) == [
        f"[0] 0 2 {[(1, 0, 0), (2, 1, 1)]} 3 {weight}",
        f"[1] 1 2 {[(2, 1, 1)]} 3 {weight}",
    ]
    assert nothing_runs(tmp_path)
