"""A job that runs, waits or fails tells what it does to whoever asks, and to the user by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from jobs import PROGRAMS, job, run, words

from paceline.observe.trace import dump, live
from paceline.observe.trace.command_line import command_line

ABSENT_RANK = PROGRAMS / "absent_rank.py"
DEADLINE = 100.0


@pytest.fixture
def output(tmp_path: Path) -> Path:
    folder = tmp_path / "output"
    folder.mkdir()
    return folder


def trace(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `paceline trace`."""
    command = [sys.executable, "-m", "paceline", "trace", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, done.stdout, done.stderr


def until(condition: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, words(folder)
        time.sleep(0.02)


def test_a_running_job_is_traced(tmp_path: Path, output: Path) -> None:
    merged = tmp_path / "trace.json"
    with job(3, ABSENT_RANK, str(tmp_path), "blocking", output=output) as running:
        until((tmp_path / "ready").exists, output)
        pids = [process.pid for process in running.processes]
        code, out, err = trace("--pid", str(pids[1]), "-o", str(merged))
        assert code == 0, err
        for rank, pid in enumerate(pids):
            assert re.search(rf"^rank {rank} \(host \S+, pid {pid}\): all_reduce #\d+ ", out, re.MULTILINE), out
        assert "operations of 3 ranks" in out
        names = [record["name"] for record in json.loads(merged.read_text())["traceEvents"]]
        assert names.count("process_name") == 3 and names.count("all_reduce") > 10
        code, out, err = trace("--pid", str(pids[1]), "--flight", str(tmp_path / "flight-"))
        assert code == 0 and sorted(path.name for path in tmp_path.glob("flight-*")) == [
            f"flight-{n}" for n in range(3)
        ]
        code, out, err = trace("--pid", "1")
        assert (code, out) == (2, "") and "process 1 is not one of the ranks that run here: " in err
        assert all(str(pid) in err for pid in pids) and len(err.splitlines()) == 1
        assert all(process.poll() is None for process in running.processes)  # nobody minded
        for process in running.processes:
            process.kill()
        running.wait(DEADLINE)
        assert not any(name.pid in pids for name in live.listening())


def test_a_stopped_rank_is_left_out(tmp_path: Path, output: Path) -> None:
    merged = tmp_path / "trace.json"
    with job(3, ABSENT_RANK, str(tmp_path), "blocking", output=output) as running:
        until((tmp_path / "ready").exists, output)
        pids = [process.pid for process in running.processes]
        os.kill(pids[2], signal.SIGSTOP)
        code, out, err = trace("--pid", str(pids[0]), "-o", str(merged))
        assert code == 0 and "operations of 2 of 3 ranks" in out
        assert f"paceline trace: rank 2 (pid {pids[2]}) did not answer within 5 s" in err
        assert isinstance(live.ask(next(name for name in live.listening() if name.pid == pids[2]), 0.2), live.Silence)
        running.processes[2].kill()


def test_two_jobs_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        (folder / "output").mkdir(parents=True)
    first, second = (job(2, ABSENT_RANK, str(folder), "blocking", output=folder / "output") for folder in folders)
    with first, second:
        for folder in folders:
            until((folder / "ready").exists, folder / "output")
        for running in (first, second):
            dumps, _ = live.job(running.processes[1].pid)
            assert [one.pid for one in dumps] == [process.pid for process in running.processes]
        with pytest.raises(ValueError, match=r"^\d+ jobs run here, choose with --pid: ") as caught:
            live.job(None)
        for running in (first, second):
            pids = ", ".join(str(process.pid) for process in running.processes)
            line = command_line(running.processes[0].pid)
            assert line and f"{pids} ({line})" in str(caught.value)


@pytest.mark.parametrize(
    ("how", "words_between"), [("blocking", "rank {} {} waits at"), ("async", "the main thread of rank {} {} is at")]
)
def test_a_stall_names_who_is_missing_and_where_the_others_are(
    how: str, words_between: str, tmp_path: Path, output: Path
) -> None:
    with job(3, ABSENT_RANK, str(tmp_path), how, output=output, env={"PACELINE_STALL_SECONDS": "0.5"}) as running:
        until((tmp_path / "ready").exists, output)
        (tmp_path / "stop").touch()
        errors = [output / f"rank-{rank}.err" for rank in range(3)]
        until(lambda: all(len(stalls(path)) >= 2 for path in errors[:2]), output)
        pids = [process.pid for process in running.processes]
    for rank in (0, 1):
        for line, seconds in zip(stalls(errors[rank]), (0.5, 1), strict=False):
            found = re.fullmatch(
                r"stalled (\S+) s: all_reduce #(\d+) float32\[4096\] AVG; "
                rf"missing rank 2 \(host \S+, pid {pids[2]}\), last heard of in all_reduce #(\d+) float32\[4096\] AVG, "
                rf"which it finished, now at \S*absent_rank\.py:{line_with('# async')}; "
                + words_between.format(rank, rf"\(host \S+, pid {pids[rank]}\)")
                + rf" \S*absent_rank\.py:{line_with(f'# {how}')}",
                line,
            )
            assert found, line
            assert int(found[2]) == int(found[3]) + 1
            assert float(found[1]) >= seconds
    assert not stalls(errors[2])


def stalls(errors: Path) -> list[str]:
    """What a rank said of operations; on a busy machine it may have waited to meet the others as well."""
    return [line for line in errors.read_text().splitlines() if re.match(r"stalled \S+ s: all_reduce", line)]


def line_with(mark: str) -> int:
    lines = ABSENT_RANK.read_text().splitlines()
    return 1 + next(number for number, line in enumerate(lines) if line.endswith(mark))


def test_a_stopped_rank_is_missing_too(tmp_path: Path, output: Path) -> None:
    env = {"PACELINE_STALL_SECONDS": "0.5"}
    with job(2, ABSENT_RANK, str(tmp_path), "blocking", output=output, env=env) as running:
        until((tmp_path / "ready").exists, output)
        os.kill(running.processes[1].pid, signal.SIGSTOP)
        until(lambda: stalls(output / "rank-0.err") != [], output)
        assert f"missing rank 1 (host {socket.gethostname()}, pid {running.processes[1].pid})" in words(output)
        assert ", which did not answer within 0.5 s: it is stopped, or in code that lets no other" in words(output)
        running.processes[1].kill()


@pytest.mark.parametrize("how", ["blocking", "async"])
def test_the_trace_is_written_before_the_error_is_raised(how: str, tmp_path: Path, output: Path) -> None:
    folder = tmp_path / "dumps"
    run(2, PROGRAMS / "disagreeing_ranks.py", how, output=output, env={"PACELINE_TRACE": str(folder)})
    dumps = dump.read(folder)
    assert [one.rank for one in dumps] == [0, 1]
    for one in dumps:
        assert re.fullmatch(r"all_reduce #1 float64.* failed: .*; raised at \S*disagreeing_ranks\.py:\d+", one.reason)
        assert [(event.collective, event.state) for event in one.events] == [
            ("barrier", "done"),
            ("all_reduce", "failed"),
        ]
