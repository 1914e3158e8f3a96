"""A real job, looked at while it runs: its timeline, its trace, its metrics, and what it says when it stalls."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections import Counter
from pathlib import Path

from jobs import PROGRAMS, job

from paceline.launch.local import LocalJob
from paceline.observe.trace import chrome, dump
from paceline.observe.trace.phases import FIRST_PID

WATCHED = PROGRAMS / "watched_job.py"
DEADLINE = 150.0
TENSORS = 12


def watched(tmp_path: Path, steps: int, timeline: str, what: str, **env: str) -> LocalJob:
    output = tmp_path / "output"
    output.mkdir()
    return job(2, WATCHED, str(steps), timeline, what, output=output, env=env)


def test_the_timeline_has_every_tensor_and_both_ranks(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    with watched(tmp_path, 40, str(path), "end") as running:
        assert running.wait(DEADLINE) == 0, (tmp_path / "output" / "rank-0.err").read_text()
    records = json.loads(path.read_text())
    names = Counter(record["name"] for record in records)
    assert names["NEGOTIATE_ALLREDUCE"] == names["ALLREDUCE"] == names["PACELINE_ALLREDUCE"] == 40 * TENSORS
    assert names["0"] == names["1"] == 40 * TENSORS
    assert names["MEMCPY_IN_FUSION_BUFFER"] == names["MEMCPY_OUT_FUSION_BUFFER"] > 0
    assert names["CYCLE_START"] > 0 and names["all_reduce"] > 0
    tensors = {r["args"]["name"] for r in records if r["name"] == "process_name" and "name" in r["args"]}
    assert {f"layer{number}.{kind}" for number in range(6) for kind in ("weight", "bias")} <= tensors
    ticks = [record for record in records if record["name"] == "1" and record["ph"] == "X"]
    assert all(record["dur"] == 0 for record in ticks)


def test_a_timeline_of_a_job_that_was_killed_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "timeline.json"
    with watched(tmp_path, 0, str(path), "end") as running:
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline and not (path.exists() and b"PACELINE_ALLREDUCE" in path.read_bytes()):
            time.sleep(0.05)
        assert running.poll() is None
    assert any(record["name"] == "PACELINE_ALLREDUCE" for record in json.loads(path.read_text()))


def test_the_trace_of_a_job_that_ended_has_every_tensor_of_both_ranks(tmp_path: Path) -> None:
    folder = tmp_path / "trace"
    with watched(tmp_path, 20, "-", "end", PACELINE_TRACE=str(folder)) as running:
        assert running.wait(DEADLINE) == 0
    chrome.write(dump.read(folder), tmp_path / "t.json")
    records = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    rows = Counter(record["tid"] for record in records if record["name"] == "NEGOTIATE_ALLREDUCE")
    assert rows == {0: 20 * TENSORS, 1: 20 * TENSORS}
    ticks = Counter((r["name"], r["tid"]) for r in records if r["pid"] >= FIRST_PID and r["name"] in "01")
    assert ticks == {("0", 0): 20 * TENSORS, ("1", 0): 20 * TENSORS}


def test_metrics_of_each_rank(tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    token = "a-token-for-this-test-only"
    env = {"PACELINE_METRICS": f"{port}-{port + 40}", "PACELINE_METRICS_TOKEN": token, "PACELINE_LOG": "info"}
    with watched(tmp_path, 0, "-", "end", **env):
        log = tmp_path / "output" / "rank-1.err"
        deadline = time.monotonic() + DEADLINE
        while "serves metrics at " not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.05)
        url = log.read_text().partition("serves metrics at ")[2].split()[0]
        text = ""
        while "paceline_coordination_issued_total{" not in text and time.monotonic() < deadline:
            request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
                text = answer.read().decode()
    assert 'paceline_operations_total{rank="1"}' in text
    assert 'paceline_bytes_total{group="group 0",rank="1"}' in text
    for file in (tmp_path / "output").iterdir():
        assert token not in file.read_text()


def test_a_stalled_tensor_is_named_with_who_is_missing(tmp_path: Path) -> None:
    """In the warning, and once the time is up in the error that ends the waiting rank."""
    env = {"PACELINE_STALL_SECONDS": "1", "PACELINE_TIMEOUT": "3", "PACELINE_START_TIMEOUT": "60"}
    with watched(tmp_path, 5, "-", "withhold", **env) as running:
        assert running.processes[0].wait(DEADLINE) != 0
        text = (tmp_path / "output" / "rank-0.err").read_text()
    warning = next(line for line in text.splitlines() if line.startswith("stalled "))
    assert 'all_reduce "layer3.weight" float32[2000]' in warning
    assert "missing rank 1 (" in warning and warning.count("watched_job.py:") == 2
    error = text.splitlines()[-1]
    assert error.startswith("paceline.errors.Timeout: ") and '"layer3.weight"' in error and "rank 1 (" in error
