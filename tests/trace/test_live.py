"""Which running ranks are asked, and how each is described in one line."""

from __future__ import annotations

from dataclasses import replace

import pytest
from event_rows import dumps_of, row

from paceline.observe.trace import live
from paceline.observe.trace.listener import Name


def ranks(job: int, *pids: int) -> list[Name]:
    return [Name(0, job, rank, pid) for rank, pid in enumerate(pids)]


def test_the_only_job_needs_no_choice() -> None:
    assert live.choose(ranks(7, 30, 20)[::-1], None) == ranks(7, 30, 20)


def test_any_rank_chooses_its_whole_job() -> None:
    names = [*ranks(7, 10, 11), *ranks(8, 20, 21)]
    assert live.choose(names, 21) == ranks(8, 20, 21)
    assert live.choose(names, 10) == ranks(7, 10, 11)


@pytest.mark.parametrize(
    ("names", "pid", "words"),
    [
        ([], None, "no Paceline job of this user runs on this machine "),
        ([], 5, "no Paceline job of this user runs on this machine "),
        (ranks(7, 10, 11), 5, "process 5 is not one of the ranks that run here: 10, 11"),
        ([*ranks(7, 10, 11), *ranks(8, 20)], None, "2 jobs run here, choose with --pid: 10, 11; 20"),
    ],
)
def test_what_cannot_be_chosen(names: list[Name], pid: int | None, words: str) -> None:
    with pytest.raises(ValueError, match="^" + words):
        live.choose(names, pid)


def test_one_line_per_rank() -> None:
    rows = [row(n, 5, n, state="done" if n < 2 else "running", end_ns=2_000_000 if n < 2 else 0) for n in range(4)]
    running, done, nothing = dumps_of(rows, rows[:2], [], written_ns=1_000_002_000_000)
    assert live.summary(running) == (
        "rank 0 (host host, pid 100): all_reduce #2 (float32, 4096 bytes) running for 1000 s, 1 more behind it"
    )
    assert live.summary(done) == "rank 1 (host host, pid 101): all_reduce #0 (float32, 4096 bytes) done 1000 s ago"
    assert live.summary(nothing) == "rank 2 (host host, pid 102): no operation yet"
    failed = dumps_of([row(1, 5, 9, "barrier", size=0, state="failed")], written_ns=1_000_000_000_000)[0]
    failed = replace(failed, rank=3, pid=103, reason="why", line="train.py:88")
    assert live.summary(failed) == (
        "rank 3 (host host, pid 103): barrier #9 failed 1000 s ago; at train.py:88; first failure: why"
    )
