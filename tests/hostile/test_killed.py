"""Ranks, launchers and agents that are killed while ranks meet: named on all others at once, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from played import LIMIT, Play, await_end

from paceline.rendezvous.deadline import Deadline

ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child")
"""Its pid tells the others nothing, as on another machine."""
HALF_MET = """
import os, time
import paceline
os.write(1, b"%d\\n" % os.getpid())
if os.environ["RANK"] == "1":
    time.sleep(600)
paceline.init()
"""


@pytest.mark.needs("process namespaces")
@pytest.mark.parametrize("victim", [1, 2], ids=["who is called", "who calls"])
def test_a_rank_on_another_machine(victim: int, tmp_path: Path) -> None:
    with Play(3, tmp_path) as play:
        for rank in range(3):
            play.start(rank, *(["--hold"] if rank == 2 else []), under=ELSEWHERE if rank == victim else ())
        last = play.ranks[2]
        last.door()
        deadline = Deadline(LIMIT)
        play.ranks[victim].kill()
        if victim != 2:
            last.say()
        told = [rank.error() for number, rank in play.ranks.items() if number != victim]
        assert deadline.remaining() > LIMIT / 2
    for kind, message in told:
        assert kind == "RendezvousError"
        assert f"rank {victim} (host " in message
        assert "died, or lost its connection to rank 0" in message or "nobody listens" in message


def test_rank_0(tmp_path: Path) -> None:
    with Play(3, tmp_path) as play:
        for rank in range(3):
            play.start(rank, *(["--hold"] if rank == 2 else []))
        last = play.ranks[2]
        last.door()
        deadline = Deadline(LIMIT)
        play.ranks[0].kill()
        last.say()
        for rank in (play.ranks[1], last):
            assert "lost the store of rank 0: it hung up; did rank 0 fail?" in rank.error()[1]
        assert deadline.remaining() > LIMIT / 2


@pytest.mark.parametrize(("launcher", "victim"), [("--direct", "launcher"), ("", "launcher"), ("", "agent")])
def test_who_started_the_ranks(launcher: str, victim: str, tmp_path: Path) -> None:
    program, temporary = tmp_path / "program.py", tmp_path / "temporary"
    program.write_text(HALF_MET)
    temporary.mkdir()
    run = subprocess.Popen(
        [sys.executable, "-m", "paceline", "run", "-n", "2", *launcher.split(), str(program)],
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with run:
        try:
            assert run.stdout is not None
            ranks = [int(run.stdout.readline()) for _ in range(2)]
            started = psutil.Process(run.pid).children(recursive=True)
            assert {process.pid for process in started} >= set(ranks)
            agent = psutil.Process(ranks[0]).ppid()
            os.kill(run.pid if victim == "launcher" else agent, signal.SIGKILL)
            _, said = run.communicate(timeout=150)
        finally:
            run.kill()
    await_end(started)
    assert not [*temporary.rglob("*")], said
    if victim == "agent":
        assert run.returncode == 128 + signal.SIGKILL
        assert f"paceline: the job ended because torchrun (pid {agent}) was killed by SIGKILL" in said.splitlines()
