"""Ranks that die, stop or leave in the middle of anything: named on every survivor in time, and nothing left."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_trial import ARRANGEMENTS, trial
from jobs import PROGRAMS, run


@pytest.mark.parametrize("machines", ARRANGEMENTS)
@pytest.mark.parametrize("seed", [1, 2])
def test_a_killed_rank_is_named(machines: str, seed: int, tmp_path: Path) -> None:
    trial("kill", machines, seed, tmp_path)


@pytest.mark.parametrize("machines", ["000", pytest.param("01", marks=pytest.mark.smoke)])
def test_a_rank_that_leaves_is_named(machines: str, tmp_path: Path) -> None:
    trial("leave", machines, 5, tmp_path)


@pytest.mark.parametrize("machines", ["000", "011"])
def test_a_stopped_rank_is_named_at_the_timeout(machines: str, tmp_path: Path) -> None:
    trial("stop", machines, 6, tmp_path, timeout=3)


def test_ctrl_c_reaches_a_rank_that_waits(tmp_path: Path) -> None:
    run(2, PROGRAMS / "waiter.py", output=tmp_path, deadline=250)
    assert (tmp_path / "rank-0.out").read_text() == "interrupted\n"
    assert "was interrupted" in (tmp_path / "rank-1.out").read_text()


def test_ctrl_c_of_all_ranks_is_raised_where_each_waits(tmp_path: Path) -> None:
    output = tmp_path / "ranks"
    output.mkdir()
    run(2, PROGRAMS / "interrupted_by_all.py", str(tmp_path / "line"), output=output, deadline=120)


def test_a_job_that_was_suspended_goes_on(tmp_path: Path) -> None:
    run(2, PROGRAMS / "suspended.py", output=tmp_path, deadline=250)
    assert all((tmp_path / f"rank-{rank}.out").read_text() == "right\n" for rank in range(2))


def test_a_rank_that_was_stopped_writes_to_no_array_of_a_call_that_has_failed(tmp_path: Path) -> None:
    run(2, PROGRAMS / "stopped_writer.py", output=tmp_path, deadline=250)
    assert all((tmp_path / f"rank-{rank}.out").read_text() == "right\n" for rank in range(2))


def test_roots_that_differ_at_the_very_end_are_named_on_both_machines(tmp_path: Path) -> None:
    run(2, PROGRAMS / "last_broadcast.py", output=tmp_path, deadline=250)
    for rank in range(2):
        told = (tmp_path / f"rank-{rank}.out").read_text()
        assert all(f"calls broadcast #0 float32[4] root {root}" in told for root in range(2)), told
