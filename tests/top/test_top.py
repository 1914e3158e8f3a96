"""`paceline top` on real jobs: what it shows, that it leaves the job alone, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from jobs import PROGRAMS, job
from rich.console import Console

from paceline.launch.local import LocalJob
from paceline.monitor.top import look as look_module
from paceline.monitor.top.headline import headline
from paceline.monitor.top.look import Job, Picture, Row
from paceline.monitor.top.show import render, to_json
from paceline.observe.figures import Figures, Waiting
from paceline.observe.rates import rates
from paceline.observe.stragglers import Last
from paceline.observe.trace import far, live
from paceline.observe.trace.listener import Name

WATCHED = PROGRAMS / "watched_job.py"
TOP = [sys.executable, "-m", "paceline", "top"]
DEADLINE = 150.0


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with what the ranks of the running job print."""
    return tmp_path_factory.mktemp("output")


@pytest.fixture(scope="module")
def running(output: Path) -> Iterator[int]:
    """A job of two ranks that trains until the tests are over; the pid of one of them."""
    with job(2, WATCHED, "0", "-", "end", output=output, env={"PACELINE_LOG": "INFO"}) as two:
        deadline = time.monotonic() + DEADLINE
        while not (found := pids(two)) and two.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert found, (output / "rank-0.err").read_text()
        yield found[0]
        assert two.poll() is None, (output / "rank-0.err").read_text()


def pids(running: LocalJob) -> list[int]:
    """Of this test's own ranks, once both can be asked and have begun to train."""
    mine = {process.pid for process in running.processes}
    names = [name for name in live.listening() if name.pid in mine]
    if len(names) < 2:
        return []
    try:
        dumps, _ = live.job(names[0].pid)
    except ValueError:  # they have just begun, or ended
        return []
    return [dump.pid for dump in dumps] if all(len(dump.requests) > 50 for dump in dumps) else []


def top(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "150"}
    return subprocess.run([*TOP, *arguments], capture_output=True, text=True, timeout=DEADLINE, env=env)


def test_once_as_json(running: int) -> None:
    done = top("--once", "--json", "--interval", "0.5", "--pid", str(running))
    assert done.returncode == 0, done.stderr
    picture = json.loads(done.stdout)
    assert [row["figures"]["rank"] for row in picture["rows"]] == [0, 1]
    for row in picture["rows"]:
        assert row["rates"]["steps"] > 0
        assert row["rates"]["bytes_per_second"] > 0
        assert 0 < row["rates"]["exposed"] < 1.5
        assert row["rates"]["cache_hits"] is not None
    told = [row["last"] for row in picture["rows"]]
    assert sum(last["share"] for last in told) + told[0]["untold"] == pytest.approx(1)
    assert picture["rows"][1]["last"]["share"] > 0.5, "it sleeps before each step"


def test_once_as_tables(running: int) -> None:
    done = top("--once", "--interval", "0.3", "--pid", str(running))
    assert done.returncode == 0, done.stderr
    assert "2 ranks; the last " in done.stdout
    for word in ("steps/s", "exposed", "arrived", "agreeing on an order", "negotiation"):
        assert word in done.stdout


@pytest.mark.needs("a terminal")
def test_live_until_ctrl_c_leaves_the_terminal_as_it_was(running: int) -> None:
    master, slave = pty.openpty()
    argv = [*TOP, "--interval", "0.2", "--pid", str(running)]
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "150", "LINES": "40"}
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + DEADLINE
    try:
        while shown.count(b"steps/s") < 3 and time.monotonic() < deadline:
            shown += _read(master, 1.0)
        process.send_signal(signal.SIGINT)
        while process.poll() is None and time.monotonic() < deadline:
            shown += _read(master, 0.1)
        shown += _read(master, 0.1)
        assert process.wait(DEADLINE) == 0
    finally:
        process.kill()
        process.wait()
        os.close(master)
    assert shown.count(b"steps/s") >= 3
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h")):
        assert shown.rfind(on) < shown.rfind(off), "the screen and the cursor come back"
    assert b"Traceback" not in shown


def _read(fd: int, seconds: float) -> bytes:
    ready, _, _ = select.select([fd], [], [], seconds)
    try:
        return os.read(fd, 65536) if ready else b""
    except OSError:  # the other end is closed
        return b""


def test_the_first_rank_logs_what_limits_the_job_once(running: int, output: Path) -> None:
    deadline = time.monotonic() + DEADLINE
    while "-bound: " not in (said := (output / "rank-0.err").read_text()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert said.count("-bound: ") == 1
    assert "% of the step " in said and "a rank submits " in said
    assert "-bound: " not in (output / "rank-1.err").read_text()


ON_MACHINES = """
import os, runpy, sys
os.environ["PACELINE_MACHINE"] = "machine-" + os.environ["RANK"]
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""Runs a program as if each rank had a machine of its own."""


@contextmanager
def on_machines(ranks: int, program: Path, *arguments: str, folder: Path, **env: str) -> Iterator[LocalJob]:
    wrapper, output = folder / "on_machines.py", folder / "output"
    wrapper.write_text(ON_MACHINES)
    output.mkdir()
    with job(ranks, wrapper, str(program), *arguments, output=output, env=env) as running:
        yield running


def names_of(running: LocalJob) -> list[Name]:
    """The sockets of all its ranks, by rank, once each has trained."""
    deadline = time.monotonic() + DEADLINE
    while len(mine := pids(running)) < len(running.processes) and time.monotonic() < deadline:
        assert running.poll() is None
        time.sleep(0.05)
    return sorted((name for name in live.listening() if name.pid in mine), key=lambda name: name.rank)


def test_ranks_on_other_machines_answer_through_one_on_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_module, "ANSWER_SECONDS", DEADLINE)
    monkeypatch.setattr(look_module, "FIRST_SECONDS", DEADLINE)
    with on_machines(3, WATCHED, "0", "-", "end", folder=tmp_path) as running:
        first, second, _ = names_of(running)
        for seen in (first, second):  # the socket of this rank alone, as on its machine
            monkeypatch.setattr(live, "listening", lambda seen=seen: [seen])
            look = Job(None)
            look.ask()
            picture = look.picture()
            while not all(row.rates.steps for row in picture.rows):
                picture = look.picture()
            assert [row.figures.rank for row in picture.rows] == [0, 1, 2]
            assert len({row.figures.pid for row in picture.rows}) == 3
            assert (picture.size, picture.elsewhere, picture.gone, picture.silent) == (3, 0, 0, {})
        assert running.poll() is None


def test_a_rank_elsewhere_that_only_computes_answers_and_one_that_is_stopped_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "computes.py"
    program.write_text(
        "import time, paceline\ngroup = paceline.init()\ngroup.barrier()\nprint('met', flush=True)\ntime.sleep(600)\n"
    )
    # It looks for questions whenever it looks for stalls, so that this test need not wait for long.
    with on_machines(2, program, folder=tmp_path, PACELINE_STALL_SECONDS="1") as running:
        files = [tmp_path / "output" / f"rank-{rank}.out" for rank in range(2)]
        deadline = time.monotonic() + DEADLINE
        while not all(file.exists() and file.read_text() for file in files) and time.monotonic() < deadline:
            time.sleep(0.05)
        mine = {process.pid for process in running.processes}
        here, there = sorted((name for name in live.listening() if name.pid in mine), key=lambda name: name.rank)
        monkeypatch.setattr(live, "listening", lambda: [here])
        look = Job(None)
        monkeypatch.setattr(look_module, "ANSWER_SECONDS", DEADLINE)
        both = look.picture()
        os.kill(there.pid, signal.SIGSTOP)
        monkeypatch.setattr(look_module, "ANSWER_SECONDS", 5.0)
        picture = look.picture()
        assert running.poll() is None
    assert [row.figures.rank for row in both.rows] == [0, 1]
    assert [row.figures.rank for row in picture.rows] == [0]
    assert list(picture.silent) == [1]
    assert picture.silent[1].startswith("rank 1 (") and "did not answer within 5 s" in picture.silent[1]
    assert (picture.elsewhere, picture.gone) == (0, 0)


def test_a_wrong_pid_is_answered_in_one_sentence(running: int) -> None:
    done = top("--once", "--pid", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("paceline top: process 1 is not one of the ranks that run here: ")
    assert done.stderr.count("\n") == 1


def test_without_a_job_it_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from paceline.cli.main import main
    from paceline.observe.trace import live

    monkeypatch.setattr(live, "listening", list)
    with pytest.raises(SystemExit) as ended:
        main(["top", "--once"])
    assert ended.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("paceline top: no Paceline job of this user runs on this machine")
    assert said.err.count("\n") == 1


def test_a_stopped_rank_is_not_waited_for_long(tmp_path: Path) -> None:
    program, output = tmp_path / "stops.py", tmp_path / "output"
    program.write_text(
        "import os, signal, time, paceline\ngroup = paceline.init()\ngroup.barrier()\nprint(os.getpid(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGSTOP) if group.rank else time.sleep(600)\n"
    )
    output.mkdir()
    with job(2, program, output=output) as running:
        files = [output / f"rank-{rank}.out" for rank in range(2)]
        deadline = time.monotonic() + DEADLINE
        while not all(file.exists() and file.read_text() for file in files) and time.monotonic() < deadline:
            time.sleep(0.05)
        done = top("--once", "--interval", "0.1", "--pid", files[0].read_text().strip())
        assert running.poll() is None
    assert done.returncode == 0, done.stderr
    assert "2 ranks; the last " in done.stdout
    assert "rank 1 (pid " in done.stdout and "did not answer within 2 s" in done.stdout.replace("\n", " ")


GONE = {3: "", 2: "1 of this machine has ended; ", 1: "2 of this machine have ended; "}


@pytest.mark.parametrize("here", GONE)
def test_it_says_how_many_ranks_are_elsewhere(here: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [Figures(rank, 6, "a", 8, 0, 10**9, elsewhere=3) for rank in range(here)]
    monkeypatch.setattr(live, "listening", list)
    monkeypatch.setattr(live, "choose", lambda names, pid: names)
    monkeypatch.setattr(live, "ask_all", lambda *_: (dict(enumerate(figures)), []))
    monkeypatch.setattr(far, "ask", lambda *_: ({}, {}))
    console = Console(width=150, record=True, file=StringIO())
    console.print(render(Job(None).picture()))
    start = f"6 ranks; 3 of 6 ranks are on other machines; {GONE[here]}the last "
    assert console.export_text().startswith(start)


def test_who_waits_for_whom() -> None:
    waiting = Waiting('all_reduce "layer3.weight" float32[2000]', 61.0, ("rank 1 (host b, pid 9)",))
    figures = Figures(0, 4, "a", 8, 0, 10**9, operations=3, waits=(waiting,))
    rows = (Row(figures, rates(figures), Last(0.1, 10)), Row(figures, rates(figures), Last(0.9, 10)))
    console = Console(width=150, record=True, file=StringIO())
    console.print(render(Picture(4, rows, {3: "rank 3 (pid 7) did not answer"}, elsewhere=1)))
    text = console.export_text()
    assert "4 ranks; 1 of 4 ranks is on another machine; the last 1 s" in text
    assert 'all_reduce "layer3.weight" float32[2000] has waited 61 s for rank 1 (host b, pid 9)' in text
    assert "rank 3 (pid 7) did not answer; not shown" in text
    assert "90.0 %" in text


def test_above_the_table_stands_who_keeps_the_others_waiting_and_why() -> None:
    """The third of three ranks computes 207 ms of a step of 210; the others compute 134 and wait for it."""

    def row(rank: int, exposed: int, last: Last, waited: int = 0) -> Row:
        figures = Figures(
            rank, 3, "abg"[rank], 8, 0, 21 * 10**9, operations=100, steps=100, step_ns=210 * 10**6,
            exposed_ns=exposed * 10**8, batches=100, batch_wait_ns=waited * 10**8,
        )  # fmt: skip
        return Row(figures, rates(figures), last)

    usual, late = Last(0.01, 100, 0.1), Last(0.98, 100, 74.0)
    last = "Rank 2 on g arrives last in 98 % of the collectives, by 74 ms in the mean."
    computes = [row(0, 76, usual), row(1, 76, usual), row(2, 3, late)]
    assert headline(computes) == f"Rank 2 on g computes 207 ms a step, the others 134 ms. {last}"
    input_late = [row(0, 76, usual, 4), row(1, 76, usual, 4), row(2, 3, late, 77)]
    assert headline(input_late) == f"Rank 2 on g waits 77 ms a step for its input, the others 4 ms. {last}"
    assert headline([row(rank, 3, Last(1 / 3, 100, 2.0)) for rank in range(3)]) == ""
    assert headline([row(0, 3, Last(0.0, 100)), row(1, 3, Last(0.9, 100, 1.0))]) == "", "a step is 210 ms long"
    picture = Picture(3, tuple(computes), {})
    console = Console(width=150, record=True, file=StringIO())
    console.print(render(picture))
    assert headline(computes) in console.export_text()
    assert json.loads(to_json(picture))["headline"] == headline(computes)
