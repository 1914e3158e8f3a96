"""Ctrl-C at any moment of a command's start ends it without a traceback."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launched import DEADLINE, SOURCE, environment, finish, program

from paceline.cli.demo.command import TRAIN
from paceline.launch import torchrun
from paceline.launch.local import LocalJob

INTERRUPTING = Path(__file__).with_name("interrupting")
CLUSTER = "children: [{machine: a, ranks: 1, uplink: 1 Gbit/s}]\n"
NEEDS_TORCH = pytest.mark.skipif(not torchrun.installed(), reason="torch is not installed")


@pytest.mark.parametrize(
    ("words", "moment", "codes"),
    [
        # While the command is imported the signal itself ends it, which a shell shows as 130.
        (["demo"], "command:typer", {-signal.SIGINT}),
        (["lab", "cluster.yaml", "--", "true"], "command:rich.console", {-signal.SIGINT}),
        pytest.param(["run", "-n", "2", str(TRAIN)], "agent:torch", {130}, marks=NEEDS_TORCH, id="agent"),
        pytest.param(["demo", "-n", "2"], "rank:torch", {130}, marks=NEEDS_TORCH, id="rank"),
    ],
)
def test_it_ends_without_a_traceback(words: list[str], moment: str, codes: set[int], tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    path = os.pathsep.join([str(INTERRUPTING), str(SOURCE)])
    command = subprocess.Popen(
        [sys.executable, "-m", "paceline", *words],
        cwd=tmp_path,
        env=environment(PYTHONPATH=path, MOMENT=moment),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    code, out, err = finish(command)
    assert code in codes, err
    assert "Traceback" not in out + err
    if words[0] == "demo" and code == 130:
        assert [line for line in err.splitlines() if "ended" in line] == err.splitlines()[
            2:
        ]  # after those of the start


@pytest.mark.needs("a lab")
def test_a_lab_that_is_being_made_is_removed_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    commands = tmp_path / "bin"
    commands.mkdir()
    # The first command that makes something presses Ctrl-C, once.
    once, path = tmp_path / "once", f"${{PATH#{commands}:}}:/usr/sbin:/sbin"
    press = f'case "$*" in "netns add"*) [ -e {once} ] || {{ touch {once}; kill -INT $PPID; }};; esac'
    (commands / "ip").write_text(f'#!/bin/sh\n{press}\nPATH="{path}" exec ip "$@"\n')
    (commands / "ip").chmod(0o755)
    command = subprocess.Popen(
        [sys.executable, "-m", "paceline", "lab", str(tmp_path / "cluster.yaml"), "--", "true"],
        env=environment(PATH=f"{commands}{os.pathsep}{os.environ['PATH']}"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    code, out, err = finish(command)
    assert (code, out, err) == (130, "", "")
    from paceline.lab.namespaces import existing

    assert not [name for name in existing() if name.startswith(f"paceline-{command.pid}-")]


def test_a_rank_that_has_just_been_started_ends_without_a_traceback(tmp_path: Path) -> None:
    output = tmp_path / "output"
    output.mkdir()
    argv = [sys.executable, str(program(tmp_path, "import time; time.sleep(600)"))]
    with LocalJob(1, argv, environment(), output=output) as job:
        job.send_signal(signal.SIGINT)
        assert job.wait(DEADLINE) == 128 + signal.SIGINT
    assert (output / "rank-0.err").read_text() == ""
