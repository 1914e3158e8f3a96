"""Coordinators of real processes: random steps of everything, and ranks that go in the middle of a negotiation."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from coordinated_job import job, run, words

NAMED_WITHIN = 5.0
"""Seconds."""
POLICIES = ["board", "graph", "cycle", "global_sleep", "nonblocking"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["00", "01", "0011"])
def test_random_steps(machines: str, policy: str, tmp_path: Path) -> None:
    """More of them: `python tests/coordinate/random_steps.py 0011 board 10000`."""
    run(len(machines), "random_steps.py", "rank", machines, policy, "60", "7", output=tmp_path)


def trial(how: str, machines: str, policy: str, seed: int, folder: Path, timeout: float = 30.0) -> None:
    """One rank goes; all others are told, in time, who, and in which request they missed it."""
    with job(
        len(machines), "coordinated_victim.py", how, machines, policy, str(seed), str(timeout), output=folder
    ) as running:
        gone = _first_end(running.processes)
        deadline = gone + NAMED_WITHIN + (timeout if how == "stop" else 0)
        while any(process.poll() is None and not _stopped(process.pid) for process in running.processes):
            assert time.monotonic() < deadline, f"survivors hang: {running.describe_running()}\n{words(folder)}"
            time.sleep(0.01)
        for process in running.processes:
            if _stopped(process.pid):
                process.send_signal(signal.SIGKILL)
    told = [json.loads(text) for path in sorted(folder.glob("*.out")) if (text := path.read_text())]
    assert len(told) == len(machines) - 1, words(folder)
    for report in told:
        assert report["kind"] == {"kill": "PeerLost", "stop": "Timeout"}[how], report
        assert f"rank {report['victim']} (" in report["message"], report
        assert 'all_reduce "layer' in report["message"], report


def _first_end(processes: object) -> float:
    start = time.monotonic()
    while time.monotonic() - start < 60:
        for process in processes:  # type: ignore[attr-defined]
            if process.poll() is not None or _stopped(process.pid):
                return time.monotonic()
        time.sleep(0.001)
    raise AssertionError("nobody went")


def _stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["00", "0011"])
@pytest.mark.parametrize("seed", [1])
def test_a_killed_rank_is_named(machines: str, seed: int, policy: str, tmp_path: Path) -> None:
    trial("kill", machines, policy, seed, tmp_path)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("machines", ["011"])
@pytest.mark.parametrize("seed", [3])
def test_a_stopped_rank_is_named_at_the_timeout(machines: str, seed: int, policy: str, tmp_path: Path) -> None:
    trial("stop", machines, policy, seed, tmp_path, timeout=3)


def test_ctrl_c_reaches_a_rank_that_waits_and_the_others_hear_of_it(tmp_path: Path) -> None:
    run(2, "coordinated_waiter.py", output=tmp_path, deadline=30)
    assert (tmp_path / "rank-0.out").read_text() == "interrupted\n"
    told = (tmp_path / "rank-1.out").read_text()
    assert 'all_reduce "another" float32[4] SUM failed: ' in told
    assert "was interrupted" in told
