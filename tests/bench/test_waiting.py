"""What waiting ranks cost others: a system that spins is told from one that sleeps, and the rows of the command."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from benched import bench

from paceline_bench.run import BenchRequest, started
from paceline_bench.systems import System
from paceline_bench.waiting import measure


def alone(call):
    here = {"PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])}
    return System(call, "none", "alone:Alone", {"call": call}, environment=here)


def test_a_rank_that_spins_is_told_from_one_that_sleeps():
    complaints = []
    first, *others = sorted(os.sched_getaffinity(0))
    with (
        started(BenchRequest([measure.busy()], 1, timeout=60), os.environ, complaints.append) as busy,
        started(
            BenchRequest([alone("spin"), alone("sleep")], 2, timeout=60), os.environ, complaints.append
        ) as sessions,
    ):
        found = measure.cost(sessions, busy[0], (first, [first, *others][-1]), 3, lambda text: None)
        spinning, sleeping = (measure.figures(one) for one in found)
    assert complaints == []
    assert spinning.system == "spin"
    assert sleeping.time_us >= 100_000
    assert spinning.cpu_us > 90_000
    assert sleeping.cpu_us < spinning.cpu_us / 4
    assert spinning.iterations == sleeping.iterations == 3


def test_the_loss_is_the_median_over_the_rounds():
    with started(BenchRequest([alone("sleep")], 2, timeout=60), os.environ, pytest.fail) as (session,):
        seen = measure.Waited(session, "none", 0, [0.1, 0.2, 0.3], [0.001, 0.002, 0.003], [0.5, -0.02, 0.01])
        row = measure.figures(seen)
    assert (row.loss_percent, row.time_us, row.cpu_us) == (1.0, 200_000, 2_000)
    assert row.loss_percent_q1 < row.loss_percent < row.loss_percent_q3


def test_rows_through_the_command_line(tmp_path):
    file, scratch = tmp_path / "rows.json", tmp_path / "scratch"
    scratch.mkdir()
    words = ("waiting", "-n", 2, "--computing", 1, "--rounds", 3, "--json", file)
    done = bench(*words, env={**os.environ, "TMPDIR": str(scratch)})
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert {row["system"] for row in rows} == {"paceline"}
    waits, *latencies = rows
    assert waits["measurement"] == "waiting"
    assert waits["time_us"] > 0
    assert waits["wrong"] == 0
    assert [row["bytes"] for row in latencies] == [8, 1 << 20]
    assert all(row["measurement"] == "latency" and row["computing"] == 1 for row in latencies)
    assert not list(scratch.iterdir())
