"""Ranks on other hosts: a stand-in for ssh on the PATH, which runs what it is given in an environment of its own."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import ssh_stand_in

from paceline.launch.remote import Ssh, travelling

TELL = (
    "import os; import paceline.horovod.job as job; job.start(None); here = job.current(); "
    "print(here.rank, here.size, os.environ['LOCAL_RANK'], os.environ.get('HOST_IS', 'here'), "
    "os.environ['GREETING'], os.getcwd(), flush=True); job.stop()"
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the stand-in writes how it was called."""
    log = tmp_path / "log"
    monkeypatch.setenv("PATH", f"{ssh_stand_in.install(tmp_path / 'bin', log)}:{os.environ['PATH']}")
    return log


def start(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "GREETING": "it's $HOME; `ls` \\ \n*", "PACELINE_TIMEOUT": "20"}
    command = [sys.executable, "-m", "paceline.horovod.run", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if _runs(pid)]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("hosts", ["localhost:1,far:2", "127.0.0.2:1,localhost:1,other-1.net:1"])
def test_ranks_here_and_elsewhere_meet(hosts: str, log: Path) -> None:
    launcher = start("-np", "3", "-H", hosts, "-p", "2200", "-i", "my key", sys.executable, "-c", TELL)
    out, err = launcher.communicate(timeout=250)
    assert launcher.returncode == 0, err
    placed = [host for item in hosts.split(",") for host in [item.partition(":")[0]] * int(item[-1])]
    lines = out.splitlines()  # of one rank in their order; others' may stand between them
    for rank, host in enumerate(placed):
        place = f"{rank} 3 {placed[:rank].count(host)} {'here' if host == 'localhost' else host}"
        greeting = [f"[{rank}] {place} it's $HOME; `ls` \\ ", f"[{rank}] * {Path.cwd()}"]
        assert [line for line in lines if line.startswith(f"[{rank}]")] == greeting, err
    assert len(lines) == 6, out
    calls = log.read_text()
    assert calls.count("-T -o BatchMode=yes") == sum(host != "localhost" for host in placed)
    assert "-p 2200 -i my key -- " in calls
    assert "SECRET" not in calls and "GREETING" not in calls and "import" not in calls


def test_the_exit_code_and_the_last_words_come_back(log: Path) -> None:
    program = "import os, sys; sys.exit(f'rank {os.environ[\"RANK\"]} fails' if os.environ['RANK'] == '1' else 0)"
    launcher = start("-np", "2", "-H", "localhost:1,far:1", sys.executable, "-c", program)
    _, err = launcher.communicate(timeout=150)
    assert launcher.returncode == 1
    assert "[1] rank 1 fails\n" in err and "rank 1 on far" in err and err.endswith("\nrank 1 fails\n"), err


def test_a_host_that_cannot_be_reached_is_named(log: Path) -> None:
    launcher = start("-np", "1", "-H", "gone:1", "true")
    _, err = launcher.communicate(timeout=150)
    assert launcher.returncode == 255
    assert "[0] ssh: connect to host gone port 22: No route to host\n" in err
    assert "rank 0 on gone" in err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_ranks_elsewhere_end_with_their_launcher(number: signal.Signals, log: Path, tmp_path: Path) -> None:
    program = (
        "import os, subprocess, sys, time; child = subprocess.Popen(['sleep', '1000']); "
        f"open({str(tmp_path)!r} + '/pids-' + os.environ['RANK'], 'w').write(f'{{os.getpid()}} {{child.pid}}\\n'); "
        "time.sleep(1000)"
    )
    launcher = start("-np", "2", "-H", "far:2", sys.executable, "-c", program)
    files = [tmp_path / f"pids-{rank}" for rank in range(2)]
    wait_until(lambda: all(file.exists() and file.read_text().endswith("\n") for file in files))
    pids = [int(word) for file in files for word in file.read_text().split()]
    assert alive(pids) == pids
    launcher.send_signal(number)
    launcher.communicate(timeout=150)
    wait_until(lambda: not alive(pids))


def test_an_elastic_job_takes_ranks_elsewhere(log: Path, tmp_path: Path) -> None:
    script = Path(__file__).parent / "elastic_script.py"
    (tmp_path / "kill-1").touch()
    program = [sys.executable, str(script), str(tmp_path), "6"]
    launcher = start("-np", "2", "--min-np", "1", "-H", "localhost:1,far:1", *program)
    _, err = launcher.communicate(timeout=250)
    assert launcher.returncode == 0, err
    assert re.search(r"elastic: rank 1 \(pid \d+\) was killed by SIGKILL\n", err), err
    assert log.read_text().count(" -- far ") == 1


def test_what_belongs_to_a_host_stays_there() -> None:
    told = {
        "PATH": "/bin",
        "HOME": "/root",
        "XDG_RUNTIME_DIR": "/run",
        "PACELINE_SECRET": "s" * 16,
        "SSH_AUTH_SOCK": "x",
    }
    assert travelling(told) == {"PATH": "/bin", "PACELINE_SECRET": "s" * 16}


def test_the_command_line_says_nothing_and_is_quoted(tmp_path: Path) -> None:
    command = Ssh(2200, "my key").command("far", ["echo", "a b"], {"PACELINE_SECRET": "hush" * 5}, "rank 3", 2)
    options = command.argv[command.argv.index("ssh") :]
    assert options[-3:-1] == ("--", "far") and len(shlex.split(options[-1])) == 2
    assert "hush" not in " ".join(command.argv) and "hush" not in str(dict(command.env))
    assert command.message is not None and b"hush" in command.message
    with pytest.raises(ValueError, match="too many for ssh"):
        Ssh().command("far", ["x" * (1 << 20)], {}, "rank 0", 1)
