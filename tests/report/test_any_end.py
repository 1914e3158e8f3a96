"""However a job ends there is a report of it, and it ends as it would without one."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import pytest
from jobs import PROGRAMS, job, words

from paceline.observe.report import Report, read
from paceline.observe.trace import dump

DEADLINE = 120.0
TERM = -signal.SIGTERM


def run(folder: Path, *how: str, ranks: int = 3) -> tuple[list[int], Report, str]:
    """The ranks' exit codes, the report, and what the ranks wrote to stderr."""
    output, place = folder / "output", folder / "report.json"
    output.mkdir()
    own = {"PACELINE_REPORT": str(place), "PACELINE_TRACE": str(folder / "trace")}
    with job(ranks, PROGRAMS / "ending.py", *how, output=output, env=own) as running:
        codes = [process.wait(DEADLINE) for process in running.processes]
    assert place.exists(), words(output)
    return codes, read(place), "".join((output / f"rank-{rank}.err").read_text() for rank in range(ranks))


def test_a_signal_that_ends_all_ranks_leaves_a_whole_report(tmp_path: Path) -> None:
    codes, report, told = run(tmp_path, "SIGTERM", "0,1,2", "early")
    assert (codes, told) == ([TERM] * 3, ""), "nobody blames a rank that the same signal has ended"
    assert (report.missing, report.cut, report.end) == ({}, {}, "SIGTERM ended rank 0.")
    assert [rank.figures.final for rank in report.ranks] == [True] * 3
    assert all(rank.figures.profile and len(rank.figures.profile.exchanges) >= 20 for rank in report.ranks)
    assert [len(one.events) >= 20 for one in dump.read(tmp_path / "trace")] == [True] * 3


@pytest.mark.parametrize("name", ["SIGHUP", "SIGUSR1", "SIGXCPU"])
def test_so_does_any_signal_by_which_schedulers_end_a_job(name: str, tmp_path: Path) -> None:
    codes, report, _ = run(tmp_path, name, "0,1", "early", ranks=2)
    assert codes == [-getattr(signal, name)] * 2
    assert (report.missing, report.end) == ({}, f"{name} ended rank 0.")


@pytest.mark.parametrize("victim", [0, 1])
def test_a_signal_that_ends_one_rank_alone(victim: int, tmp_path: Path) -> None:
    codes, report, told = run(tmp_path, "SIGTERM", str(victim), "early")
    assert codes == [TERM if rank == victim else 1 for rank in range(3)]
    assert (report.missing, len(report.ranks)) == ({}, 3)
    assert report.ranks[victim].figures.final and report.ranks[victim].figures.operations >= 20
    assert report.end == ("SIGTERM ended rank 0." if victim == 0 else "")
    assert re.search(rf"PeerLost: .*rank {victim} ", told)


def test_a_program_that_handles_the_signal_does_as_it_would(tmp_path: Path) -> None:
    codes, report, _ = run(tmp_path, "SIGTERM", "0,1", "handled", ranks=2)
    assert codes == [7, 7]
    assert (report.missing, report.cut, report.end) == ({}, {}, "")


def test_a_program_that_lets_nothing_run_ends_all_the_same(tmp_path: Path) -> None:
    codes, report, _ = run(tmp_path, "SIGTERM", "1", "deaf", ranks=2)
    assert codes == [1, TERM]
    assert report.size == 2


def test_what_kill_9_ends_is_in_the_report_as_it_was_before(tmp_path: Path) -> None:
    codes, report, _ = run(tmp_path, "SIGKILL", "2", "late")
    assert codes == [1, 1, -signal.SIGKILL]
    assert (report.missing, [rank.figures.final for rank in report.ranks]) == ({}, [True, True, False])
    assert report.cut.keys() == {2}
    assert any(remark.startswith("The figures of rank 2 end before it did: rank 2 (") for remark in report.remarks)
    assert len(dump.read(tmp_path / "trace")) == 3


def test_kill_9_of_the_first_rank_leaves_the_report_so_far(tmp_path: Path) -> None:
    codes, report, _ = run(tmp_path, "SIGKILL", "0", "late", ranks=2)
    assert codes == [-signal.SIGKILL, 1]
    assert (report.missing, len(report.ranks)) == ({}, 2)
    assert report.end == "The job had not ended when this was written."


@pytest.mark.parametrize("place", ["missing/run.json", ".", "/proc/run.json"])
def test_a_report_that_cannot_be_written_is_told_before_the_job_runs(place: str, tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    where = str(tmp_path / place)
    own = {"PACELINE_REPORT": where, "PACELINE_TRACE": "/proc/dumps"}
    with job(2, PROGRAMS / "ending.py", "SIGTERM", "0,1", "early", output=output, env=own) as running:
        assert [process.wait(DEADLINE) for process in running.processes] == [TERM, TERM]
    trace, report = (output / "rank-0.err").read_text().splitlines()
    assert trace.startswith("the job runs without a trace here: cannot write in PACELINE_TRACE=/proc/dumps: ")
    assert report.startswith(f"the job runs without a report: cannot write PACELINE_REPORT={where}: ")
    # It may hear of the end of rank 0 before its own signal.
    assert "the job runs without" not in (output / "rank-1.err").read_text(), "one rank of a machine says so"
