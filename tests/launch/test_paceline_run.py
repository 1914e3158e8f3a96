"""`paceline run` as a person meets it: real processes, real signals, deadlines."""

import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from launched import (
    DEADLINE,
    FAILING,
    SHOW,
    SLEEPERS,
    all_gone,
    environment,
    facts,
    finish,
    paceline_run,
    pids,
    program,
    wait_until,
)

from paceline.launch import torchrun

FILES = ["rank-0", "rank-1", "orphan-0", "orphan-1"]


def launchers() -> list[object]:
    skip = pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")
    return [pytest.param(("--direct",), id="direct"), pytest.param((), id="torchrun", marks=skip)]


@pytest.mark.parametrize("launcher", launchers())
def test_ctrl_c_leaves_nothing(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    script = program(tmp_path, SLEEPERS)
    run = paceline_run("-n", "2", *launcher, script, tmp_path, "polite")
    running = pids(tmp_path, FILES)
    run.send_signal(signal.SIGINT)
    code, _, err = finish(run)
    all_gone(running)
    assert code == 130, err
    assert err.endswith("paceline: SIGINT ended the job; none of its processes is left\n")
    assert "first to fail" not in err
    assert "SignalException" not in err  # of torchrun's, about the signal that everybody has seen


def test_sigterm_ends_ranks_that_ignore_it(tmp_path: Path) -> None:
    script = program(tmp_path, SLEEPERS)
    run = paceline_run("-n", "2", "--grace", "0.5", "--direct", script, tmp_path, "stubborn")
    running = pids(tmp_path, FILES)
    run.send_signal(signal.SIGTERM)
    code, _, _ = finish(run)
    all_gone(running)
    assert code == 143


def test_a_second_ctrl_c_does_not_wait(tmp_path: Path) -> None:
    script = program(tmp_path, SLEEPERS)
    run = paceline_run("-n", "2", "--grace", "600", "--direct", script, tmp_path, "stubborn")
    running = pids(tmp_path, FILES)
    run.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        run.wait(1)
    run.send_signal(signal.SIGINT)
    code, _, _ = finish(run)
    all_gone(running)
    assert code == 130


def test_a_killed_launcher_leaves_no_ranks(tmp_path: Path) -> None:
    """Nor do those under torchrun outlive it, see tests/hostile/test_killed.py; and test_kept.py of what they start."""
    script = program(tmp_path, SLEEPERS)
    run = paceline_run("-n", "2", "--direct", script, tmp_path, "polite")
    running = pids(tmp_path, FILES)
    run.kill()
    run.wait(DEADLINE)
    all_gone(running)
    run.communicate()


ALONE = """
import os, sys, time, pathlib, paceline
with paceline.init() as group:
    pathlib.Path(sys.argv[1], f"rank-{group.rank}").write_text(str(os.getpid()))
    time.sleep(600)
"""


@pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")
def test_ranks_do_not_outlive_a_torchrun_that_is_killed(tmp_path: Path) -> None:
    # In a chroot the machine's name may be that of no address, to which torchrun would send its ranks.
    words = ["-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=2"]
    agent = subprocess.Popen(
        [sys.executable, *words, str(program(tmp_path, ALONE)), str(tmp_path)],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        running = pids(tmp_path, ["rank-0", "rank-1"])
    finally:
        agent.kill()
        agent.wait(DEADLINE)
    all_gone(running)


@pytest.mark.parametrize("launcher", launchers())
def test_the_root_cause_comes_last(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    code, _, err = finish(paceline_run("-n", "3", *launcher, program(tmp_path, FAILING), tmp_path / "first"))
    assert code == 1
    assert err.count("line of rank 1\n") == 1
    lines = err.rpartition("paceline: first to fail on ")[2].splitlines()
    assert "rank 1 (pid " in lines[0] and "exited with code 1" in lines[0]
    assert lines[1] == "Traceback (most recent call last):" and lines[-1] == "ValueError: the root cause"
    assert "paceline/launch" not in err and "torch/distributed/run.py" not in err  # nothing of the launchers' own
    if not launcher:
        assert f"\n{tmp_path / 'program.py'} FAILED\n" in err


LATE = """
import os, pathlib, sys, time
import numpy, paceline
group = paceline.init()
late = pathlib.Path(sys.argv[1])
while os.environ["RANK"] == "1" and not late.exists():
    time.sleep(0.01)
try:
    group.all_reduce(numpy.ones(4, numpy.float32))
except paceline.errors.Timeout:
    late.touch()
    raise
"""


@pytest.mark.parametrize("launcher", launchers())
def test_after_a_timeout_the_rank_that_did_not_come_is_named(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    env = environment(PACELINE_TIMEOUT="2", PACELINE_START_TIMEOUT="60")
    code, _, err = finish(paceline_run("-n", "3", *launcher, program(tmp_path, LATE), tmp_path / "late", env=env))
    assert code == 1
    said, _, words = err.rpartition("paceline: the job stopped for rank 1 (host ")[2].partition("\n")
    assert re.search(r", pid \d+\), which did not come in time; rank [012] \(pid \d+\) exited with code 1, which", said)
    assert words.splitlines()[0] == "Traceback (most recent call last):" and "reached its timeout of " in words
    assert "first to fail" not in err


@pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")
def test_a_machine_that_waits_for_another_says_so_and_where(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"127.0.0.1:{server.getsockname()[1]}"
    meeting = ("--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", place, "--rdzv-id", "alone")
    env = environment(PACELINE_STALL_SECONDS="0.5")
    run = paceline_run("-n", "1", "--grace", "1", *meeting, program(tmp_path, "never begins"), env=env)
    deadline = threading.Timer(100, run.kill)
    deadline.start()
    words = (
        f"no rank has started on {socket.gethostname()}. torchrun waits until 2 machines (--nnodes) have met at "
        f"{place}. It answers there: start the same command on the other machines."
    )
    try:
        assert run.stderr is not None
        line = next(line for line in run.stderr if "It answers" in line)
        assert re.fullmatch(rf"paceline: stalled \S+ s: {re.escape(words)}\n", line)
    finally:
        deadline.cancel()
        run.send_signal(signal.SIGINT)
        code, _, _ = finish(run, 60)
    assert code == 130


@pytest.mark.smoke
def test_a_rank_that_was_killed_is_named(tmp_path: Path) -> None:
    text = FAILING.replace('raise ValueError("the root cause")', "os.kill(os.getpid(), 9)")
    text = text.replace('print("line of rank", os.environ["RANK"], file=sys.stderr)\n', "")
    code, _, err = finish(paceline_run("-n", "2", "--direct", program(tmp_path, text), tmp_path / "first"))
    assert code == 128 + 9
    assert "was killed by SIGKILL; it" in err and err.rstrip().endswith("it wrote nothing to stderr")


@pytest.mark.parametrize("launcher", launchers())
def test_what_ranks_get_and_leave(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    """The plan, and what the user set; one session, for Linux shares CPUs between sessions: ranks in sessions of their
    own could not hand them to each other; and no folder is left."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = environment(OMP_NUM_THREADS="3", TMPDIR=str(temporary))
    text = SHOW + "sys.stdout.write(f'{os.getsid(0)} {os.getpgrp() == os.getpid()}\\n')\n"
    run = paceline_run("-n", "2", *launcher, program(tmp_path, text), tmp_path, "--lr", "1", env=env)
    code, out, err = finish(run)
    assert code == 0, err
    assert out.splitlines() == [f"{os.getsid(0)} True"] * 2
    assert not list(temporary.iterdir())
    seen = facts(tmp_path, 1)
    found = dict(seen["env"])  # type: ignore[call-overload]
    assert found["OMP_NUM_THREADS"] == "3" and "OMP_NUM_THREADS=3 kept as you set it" in err
    assert seen["argv"][1:] == [str(tmp_path), "--lr", "1"]  # type: ignore[index]
    assert found["WORLD_SIZE"] == "2" and found["MASTER_ADDR"] == "127.0.0.1"
    assert len(found["PACELINE_SECRET"]) == 64 and found["PACELINE_SECRET"] not in err


def test_threads_are_planned(tmp_path: Path) -> None:
    run = paceline_run("-n", "1", "--direct", "--threads", "2", program(tmp_path, SHOW), tmp_path)
    code, _, err = finish(run)
    assert code == 0, err
    assert dict(facts(tmp_path, 0)["env"])["OMP_NUM_THREADS"] == "2"  # type: ignore[call-overload]
    assert "threads: 2 per rank (--threads)" in err and "cores: not pinned" in err


@pytest.mark.needs("a terminal")
def test_on_a_terminal_the_ranks_have_one(tmp_path: Path) -> None:
    script = program(tmp_path, SHOW + "\nprint('seen', file=sys.stderr)")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "paceline", "run", "-n", "1", "--direct", str(script), str(tmp_path)]
    run = subprocess.Popen(command, env=environment(), stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while data := os.read(ours, 4096):
            said += data
    except OSError:  # the last writer left
        pass
    os.close(ours)
    assert run.wait(DEADLINE) == 0
    assert facts(tmp_path, 0)["terminal"] is True
    assert said.endswith(b"seen\r\n")


def test_a_pipe_that_lets_nobody_wait_gets_all_lines(tmp_path: Path) -> None:
    """Whoever shares it may have made it so, as shells of some editors do."""
    script = program(tmp_path, "import sys\nfor number in range(20000): print(f'line {number}', file=sys.stderr)")
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    command = [sys.executable, "-m", "paceline", "run", "-n", "1", "--direct", str(script)]
    run = subprocess.Popen(command, env=environment(), stderr=writing)
    try:
        wait_until(lambda: not select.select([], [writing], [], 0)[1], "the pipe is full")
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read().decode()
    assert run.wait(DEADLINE) == 0
    assert [line for line in said.splitlines() if line.startswith("line ")] == [f"line {n}" for n in range(20000)]


def test_a_launcher_without_stderr_runs_its_job(tmp_path: Path) -> None:
    script = program(tmp_path, "import sys\nprint('lost', file=sys.stderr)\nprint('seen')")
    words = [sys.executable, "-m", "paceline", "run", "-n", "1", "--direct", str(script)]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" 2>&-', "sh", *words], stdout=subprocess.PIPE, env=environment(), timeout=DEADLINE
    )
    assert done.returncode == 0 and b"seen" in done.stdout.splitlines()


def test_a_signal_ends_a_job_whose_output_nobody_reads(tmp_path: Path) -> None:
    """A pager that waits for its user, or a terminal that was stopped, keeps nothing from ending."""
    script = program(tmp_path, "import sys\nwhile True: print('x' * 200, file=sys.stderr)")
    reading, writing = os.pipe()
    command = [sys.executable, "-m", "paceline", "run", "-n", "1", "--direct", "--grace", "1", str(script)]
    run = subprocess.Popen(command, env=environment(), stderr=writing)
    try:
        wait_until(lambda: not select.select([], [writing], [], 0)[1], "the pipe is full")
        run.send_signal(signal.SIGTERM)
        assert run.wait(DEADLINE) == 128 + signal.SIGTERM
    finally:
        run.kill()
        run.wait()
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "paceline run: say how many ranks to start here, for example: paceline run -n 4 train.py"),
        (["-n", "2"], "paceline run: name the program to run, for example: paceline run -n 4 train.py"),
        (["-n", "2", "missing.py"], "paceline run: there is no program missing.py"),
        (["-n", "-1", "missing.py"], "the number of ranks must be a number"),
        (["-n", "2", "--threads", "0", "missing.py"], "Invalid value for '--threads'"),
        (["-n", "2", "--grace", "soon", "missing.py"], "Invalid value for '--grace'"),
    ],
)
def test_wrong_arguments_give_one_sentence(words: list[str], complaint: str) -> None:
    code, out, err = finish(paceline_run(*words))
    assert code == 2 and not out
    assert complaint in err and len(err.splitlines()) == 1


def test_who_lost_a_peer_is_not_the_cause(tmp_path: Path) -> None:
    text = (
        "import os, sys, time\nfrom paceline.errors import PeerLost\n"
        "if os.environ['RANK'] == '0': raise PeerLost('rank 1 has left')\n"
        "time.sleep(0.5)\nsys.exit('a message and no traceback')"
    )
    code, _, err = finish(paceline_run("-n", "2", "--direct", program(tmp_path, text)))
    assert code == 1
    assert err.rstrip().endswith("exited with code 1; it said:\na message and no traceback")
