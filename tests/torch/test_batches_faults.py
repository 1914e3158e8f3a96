"""Ranks that read batches together: whoever dies, raises or leaves, all ranks know, and nothing is left."""

from __future__ import annotations

import json
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import left_behind
import psutil
import pytest
import torch
from jobs import PROGRAMS, TORCH, job, words
from rank_loss import leftovers

from paceline.observe.report import read
from paceline.torch.data import Loader

PROGRAM = PROGRAMS / "shared_batches.py"
DEADLINE = 250.0
"""Seconds, many times what any of this takes."""
RANKS = 3


def told(folder: Path) -> dict[int, dict[str, Any]]:
    found = [
        json.loads(text) for path in folder.glob("*.out") if (text := path.read_text().strip().rpartition("\n")[2])
    ]
    return {one["rank"]: one for one in found if one}


def run(what: str, workers: int, folder: Path, **env: str) -> dict[int, dict[str, Any]]:
    """What each rank met. A rank that was killed says nothing. env: added to the ranks' environment."""
    before = set(psutil.pids())
    with job(RANKS, PROGRAM, what, str(workers), output=folder, env=env, imports=TORCH) as running:
        deadline = time.monotonic() + DEADLINE
        waited_for = running.processes[1:] if what == "stop" else running.processes
        while any(process.poll() is None for process in waited_for):
            assert time.monotonic() < deadline, words(folder)
            time.sleep(0.01)
            if what == "interrupt" and all("waits" in text.read_text() for text in files(folder)):
                for process in running.processes:
                    process.send_signal(signal.SIGINT)
                what = "interrupted"
    assert not leftovers(running)
    while left := [one for one in left_behind.started_since(before) if one.is_running()]:
        assert time.monotonic() < deadline, [left_behind.describe(one) for one in left]
        time.sleep(0.05)
    return told(folder)


def files(folder: Path) -> list[Path]:
    return [folder / f"rank-{rank}.err" for rank in range(RANKS)]


def test_a_reader_that_is_killed_is_named(tmp_path: Path) -> None:
    found = run("kill-reader", 2, tmp_path)
    assert sorted(found) == [1, 2], words(tmp_path)
    for one in found.values():
        assert one["kind"] == "PeerLost", one
        assert "rank 0 (" in one["message"] and "reads this machine's batches" in one["message"], one


@pytest.mark.parametrize("what", ["kill-rank", "leave"])
def test_a_rank_that_is_gone_keeps_no_other_from_its_batches(what: str, tmp_path: Path) -> None:
    found = run(what, 2, tmp_path)
    for rank in (0, 2) if what == "leave" else (0, 1):
        assert found[rank]["kind"] == "NoneType", words(tmp_path)
        assert found[rank]["seen"] == [6 * n + 2 * rank + i for n in range(12) for i in range(2)]


@pytest.mark.parametrize(
    ("what", "workers"), [("raise", 0), ("raise", 2), ("exit", 0), ("exit", 2), ("interrupted", 0)]
)
def test_an_exception_in_the_dataset_ends_the_epoch_everywhere(what: str, workers: int, tmp_path: Path) -> None:
    found = run(what, workers, tmp_path)
    for rank in range(RANKS):
        assert found[rank]["kind"] == "ReadingFailed", words(tmp_path)
        assert "rank 0," in found[rank]["message"] and "broken sample 40" in found[rank]["message"]
        assert found[rank]["blamed"] == [0, socket.gethostname(), found[0]["pid"]]
        assert found[rank]["seen"] == [6 * n + 2 * rank + i for n in range(6) for i in range(2)]


def test_an_input_worker_that_is_killed_is_named(tmp_path: Path) -> None:
    found = run("kill-worker", 2, tmp_path)
    for rank in range(RANKS):
        assert found[rank]["kind"] == "ReadingFailed", words(tmp_path)
        assert "worker" in found[rank]["message"]
        assert found[rank]["blamed"] == [0, socket.gethostname(), found[0]["pid"]]


def test_a_reader_that_stops_is_named_at_the_timeout(tmp_path: Path) -> None:
    found = run("stop", 2, tmp_path)
    for rank in (1, 2):
        assert found[rank]["kind"] == "Timeout", words(tmp_path)
        assert "rank 0 (" in found[rank]["message"]


def test_an_epoch_may_end_early_and_the_next_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    found = run("break", 2, tmp_path, PACELINE_REPORT=str(file))
    for rank in range(RANKS):
        assert found[rank]["kind"] == "NoneType", words(tmp_path)
        assert found[rank]["seen"] == [6 * n + 2 * rank + i for n in range(12) for i in range(2)]
    for one in read(file).ranks:
        assert one.figures.batches == 3 + 12
        assert one.figures.loading_ns > 0 and one.rates.hidden is not None


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c_ends_ranks_that_wait_for_a_batch(workers: int, tmp_path: Path) -> None:
    found = run("interrupt", workers, tmp_path)
    assert [found[rank]["kind"] for rank in range(RANKS)] == ["KeyboardInterrupt"] * RANKS, words(tmp_path)


def test_a_ctrl_c_that_comes_while_a_batch_is_dropped_is_not_lost() -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def drop() -> None:
        sys.setprofile(interrupt)  # at whatever Python calls next
        held.clear()
        sys.setprofile(None)

    loader = Loader([torch.zeros(4, 3)] * 3)
    batches = iter(loader)
    held = [next(batches)]
    with pytest.raises(KeyboardInterrupt):
        drop()
    assert len(list(batches)) == 2
    loader.close()
