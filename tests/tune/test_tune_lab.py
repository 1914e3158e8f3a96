"""`paceline tune` on the machines of a lab, and a job there that is started as it found: `paceline run` needs nothing
more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from jobs import PROGRAMS
from launched import DEADLINE, environment, program

PAIR = """
name: pair
children:
  - {machine: alpha, ranks: 1, uplink: 1 Gbit/s}
  - {machine: beta, ranks: 2, uplink: 1 Gbit/s}
"""


# Each rank says in one piece where it was, for two of them write to the same pipe.
TRAINS = f"""
import os, runpy, socket
runpy.run_path({str(PROGRAMS / "watched_job.py")!r}, run_name="__main__")
os.write(1, (" ".join([socket.gethostname(), os.environ["RANK"], os.environ["WORLD_SIZE"]]) + "\\n").encode())
"""


@pytest.mark.needs("a lab")
def test_the_ranks_of_a_lab_are_tuned_and_started_so(tmp_path: Path) -> None:
    topology, rows, links = tmp_path / "pair.yaml", tmp_path / "rows.json", tmp_path / "links.json"
    topology.write_text(PAIR)
    paceline = [sys.executable, "-m", "paceline"]
    job = [sys.executable, str(program(tmp_path, TRAINS)), "{batch}", "-", "end"]

    def in_lab(*words: str) -> str:
        done = subprocess.run(
            [*paceline, "lab", str(topology), "--json", str(links), "--", *paceline, *words, "--", *job],
            env=environment(XDG_CACHE_HOME=str(tmp_path)),
            capture_output=True,
            text=True,
            timeout=2 * DEADLINE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    said = in_lab("tune", "--seconds", "0.05", "--batch", "300", "--timeout", str(DEADLINE), "--json", str(rows))
    found = json.loads(rows.read_text())
    assert [(row["processes"], row["threads"], row["effective_batch"]) for row in found] == [(3, 1, 900)]
    assert found[0]["chosen"] and found[0]["throughput"] > 0
    assert "to use it on every machine of the lab: paceline run --threads 1 -- " in said
    said = in_lab("run", "--tuned")
    assert "tuned: 3 processes with 1 thread each, batch 300" in said
    for where in ("alpha | alpha 0 3", "beta  | beta 1 3", "beta  | beta 2 3"):
        assert where in said.splitlines()
    # 49 kB in every step, most of which has to leave alpha and to arrive there.
    assert all(link["up"] > 1 << 20 and link["down"] > 1 << 20 for link in json.loads(links.read_text()))


@pytest.mark.needs("a lab")
def test_shapes_have_the_ranks_of_the_lab(tmp_path: Path) -> None:
    topology = tmp_path / "pair.yaml"
    topology.write_text(PAIR)
    paceline = [sys.executable, "-m", "paceline"]
    tune = [*paceline, "tune", "--shape", "2x1x4", "--", sys.executable, "a.py", "{shape}"]
    done = subprocess.run(
        [*paceline, "lab", str(topology), "--", *tune],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 2 and "--shape 2x1x4 needs 2 processes, there are 3" in done.stderr
