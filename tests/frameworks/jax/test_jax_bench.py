"""`paceline bench jax` gives a row for each system and size."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paceline", "bench", "jax", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_every_system_gets_a_row_for_each_size(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = bench("-b", "1K", "-e", "4K", "-f", "4", "--rounds", "3", "--seconds", "0", "--json", str(file))
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    systems = [("paceline", "engine"), ("paceline", "jax"), ("paceline", "psum"), ("gloo", "psum")]
    assert [(row["system"], row["path"]) for row in rows] == 2 * systems
    assert [row["bytes"] for row in rows] == [1024] * 4 + [4096] * 4
    assert not any(row["wrong"] for row in rows)
    assert all(row["time_us"] > 0 and row["cpu_us"] > 0 and row["ranks"] == 2 for row in rows)


def test_an_environment_without_jax_is_named(tmp_path: Path) -> None:
    done = bench("--peers", str(tmp_path))
    assert done.returncode == 2
    assert "".join(done.stderr.split()) == "".join(
        f"JAX and Paceline are not installed in {tmp_path}; --peers names where they are.".split()
    )
