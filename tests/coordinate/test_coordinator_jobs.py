"""Coordinators of real processes: random steps of everything, and ranks that go in the middle of a negotiation."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import job, run
from rank_loss import lose_one

HERE = Path(__file__).parent
POLICIES = ["board", "graph", "cycle", "global_sleep", "nonblocking"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["00", "01", pytest.param("0011", marks=pytest.mark.verify)])
def test_random_steps(machines: str, policy: str, tmp_path: Path) -> None:
    """More of them: `PYTHONPATH=tests python tests/coordinate/random_steps.py 0011 board 10000`."""
    steps = "30" if len(machines) == 2 else "12"
    run(len(machines), HERE / "random_steps.py", "rank", machines, policy, steps, "7", output=tmp_path)


@pytest.mark.parametrize("machines", ["00", "001", "000"])
def test_what_is_taken_back_was_not_written_to(machines: str, tmp_path: Path) -> None:
    run(len(machines), HERE / "taken_back_job.py", machines, "12", output=tmp_path)


@pytest.mark.parametrize("policy", ["board", "cycle"])
def test_plans_change_while_ranks_submit(policy: str, tmp_path: Path) -> None:
    run(3, HERE / "replanned_job.py", "010", policy, output=tmp_path)
    assert "plans made again" in (tmp_path / "rank-0.err").read_text()


def test_who_goes_while_links_are_measured_is_named(tmp_path: Path) -> None:
    with job(3, HERE / "replanned_job.py", "010", "board", "goes", output=tmp_path) as running:
        assert running.wait(150) == 9
    for rank in (0, 2):
        assert "rank 1" in (tmp_path / f"rank-{rank}.out").read_text()


def trial(how: str, machines: str, policy: str, seed: int, folder: Path, timeout: float = 30.0) -> None:
    """One rank goes; all others are told, in time, who, and in which request they missed it."""
    arguments = (machines, policy, str(seed), str(timeout))
    program = HERE / "coordinated_victim.py"
    for report in lose_one(len(machines), program, how, *arguments, folder=folder, timeout=timeout)[1]:
        assert f'all_reduce "{report["tensor"]}"' in report["message"], report
        assert report["group"] == list(range(len(machines))), report
        assert report["rank"] == report["victim"] or how == "stop", report  # one that waits may look stopped, too


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["00", "0011"])
@pytest.mark.parametrize("seed", [1])
def test_a_killed_rank_is_named(machines: str, seed: int, policy: str, tmp_path: Path) -> None:
    trial("kill", machines, policy, seed, tmp_path)


@pytest.mark.parametrize(
    ("policy", "machines", "seed"), [*((policy, "011", 3) for policy in POLICIES), ("board", "0011", 7)]
)
def test_a_stopped_rank_is_named_at_the_timeout(policy: str, machines: str, seed: int, tmp_path: Path) -> None:
    trial("stop", machines, policy, seed, tmp_path, timeout=6)


def test_ctrl_c_reaches_a_rank_that_waits_and_the_others_hear_of_it(tmp_path: Path) -> None:
    run(2, HERE / "coordinated_waiter.py", output=tmp_path, deadline=250)
    assert (tmp_path / "rank-0.out").read_text() == "interrupted\n"
    told = (tmp_path / "rank-1.out").read_text()
    assert 'all_reduce "another" float32[4] SUM failed: ' in told
    assert "was interrupted" in told
