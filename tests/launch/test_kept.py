"""A launcher that is killed by SIGKILL leaves nothing of its job."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from jobs import PROGRAMS

from paceline.launch.control_group import ControlGroup
from paceline.launch.job import Job
from paceline.launch.kept import kept

DEADLINE = 60.0
WITHOUT_GROUPS = """
import sys
from paceline.launch.control_group import ControlGroup
ControlGroup.new = classmethod(lambda cls: None)
from paceline.cli.main import main
sys.exit(main(["run", *sys.argv[1:]]))
"""


def named(seconds: str) -> list[psutil.Process]:
    """The processes that sleep for so long."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        words = process.info["cmdline"] or []
        if seconds in words and Path(words[0]).name == "sleep" and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process)
    return found


@pytest.mark.parametrize("groups", [True, False])
def test_what_ranks_started_ends_with_a_launcher_that_is_killed(groups: bool) -> None:
    if groups:
        group = ControlGroup.new()
        if group is None:
            pytest.skip("this user may make no control groups")
        group.remove()
    seconds = f"9{secrets.randbelow(10**8):08}"
    launcher = [sys.executable, "-m", "paceline", "run"] if groups else [sys.executable, "-c", WITHOUT_GROUPS]
    kinds = ["all"] if groups else []
    command = [*launcher, "--direct", "-n", "2", str(PROGRAMS / "starts_others.py"), seconds, *kinds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            assert [process.stdout.readline() for _ in range(2)] == ["up\n"] * 2
            deadline = time.monotonic() + DEADLINE
            while len(named(seconds)) < 2 * (5 if groups else 4):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            os.kill(process.pid, signal.SIGKILL)
            while named(seconds):
                assert time.monotonic() < deadline, named(seconds)
                time.sleep(0.02)
        finally:
            process.kill()
            for one in named(seconds):
                one.kill()


def test_no_control_group_is_left_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ControlGroup(tmp_path / "group")
    group.folder.mkdir()
    monkeypatch.setattr(ControlGroup, "new", lambda: group)
    monkeypatch.setattr(sys, "executable", "/nowhere")
    with pytest.raises(FileNotFoundError), kept(Job([], "mark")):
        pass
    assert not group.folder.exists()


def test_a_control_group_goes_with_those_below_it(tmp_path: Path) -> None:
    group = ControlGroup(tmp_path / "group")
    (group.folder / "inner" / "innermost").mkdir(parents=True)
    group.remove()
    assert not group.folder.exists()
