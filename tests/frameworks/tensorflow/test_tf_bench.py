"""`paceline bench tensorflow` gives a row for each system, of gradients and of Keras steps."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "bench", "tensorflow", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=780)


@pytest.mark.timeout(800)
def test_every_system_gets_a_row_for_gradients_and_for_steps(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    words = ["--model", "GoogLeNet", "--rounds", "3", "--seconds", "0", "--steps", "1", "--json", str(file)]
    done = bench(*words)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    sums = [("all_reduce", *which) for which in (("paceline", "named"), ("paceline", "tensorflow"))]
    sums.append(("all_reduce", "mirrored", "tensorflow"))
    steps = [("keras_step", name, "keras") for name in ("paceline", "mirrored")]
    assert [(row["collective"], row["system"], row["path"]) for row in rows] == sums + steps
    assert not any(row["wrong"] for row in rows)
    assert all(row["time_us"] > 0 and row["cpu_us"] > 0 and row["ranks"] == 2 for row in rows)
    assert len({row["bytes"] for row in rows[:3]}) == len({row["bytes"] for row in rows[3:]}) == 1


def test_an_environment_without_tensorflow_is_named(tmp_path: Path) -> None:
    done = bench("--peers", str(tmp_path))
    assert done.returncode == 2
    sentence = f"TensorFlow and Paceline are not installed in {tmp_path}; --peers names where they are."
    assert "".join(done.stderr.split()) == "".join(sentence.split())
