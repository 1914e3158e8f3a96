"""The blocks of shell on the pages run as they stand there, as if pasted, in the page's order."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from commands import paceline
from jobs import RAW, TORCH, run
from launched import example
from page_blocks import ROOT, SHELL, blocks
from recorded import report

from paceline.launch import torchrun
from paceline.launch.arguments import split
from paceline.observe.report import to_json
from paceline.settings.settings import Settings

TRAIN = """
import sys
import numpy as np
import paceline

with paceline.init() as group:
    gradient = np.ones(1 << 16, np.float32)
    for step in range(24):
        group.all_reduce(gradient, "avg")
print("it ran", *sys.argv[1:])
"""
"""The reader's own script."""
FEW = ("--steps", "1", "--runs", "1")
"""What a simulation gets besides, so that it takes no longer than it must."""
FILES = ("PACELINE_REPORT", "PACELINE_TRACE")
"""Settings that name a file or a folder."""


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which a reader pastes: a checkout, with a script of theirs and the files of which pages speak."""
    for name in ("examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "train.py").write_text(TRAIN)
    (tmp_path / "other.yaml").write_text((ROOT / "docs" / "topologies" / "2+2.yaml").read_text())
    (three,) = blocks("docs/run/network.md", "yaml")
    for name in ("three.yaml", "network.yaml"):
        (tmp_path / name).write_text(three)
    for name in [name for name in os.environ if name.startswith("PACELINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", SHELL)
def test_the_lines_of_shell_run_in_order(page: str, desk: Path) -> None:
    found = blocks(page, "sh")
    for number in SHELL[page]:
        for words in lines(found[number]):
            carry_out(page, words, desk)


def lines(block: str) -> Iterator[list[str]]:
    """The words of each line of a block, as a shell would take them; `export` and what is no command go as one."""
    if all(line.startswith("export ") for line in block.splitlines()):
        yield ["sh", "-c", f"{block}\nenv -0"]
        return
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and (">" in words or "|" in words):
            yield ["sh", "-c", line]
        elif words:
            yield words


def carry_out(page: str, words: list[str], desk: Path) -> None:
    env = {}
    while re.fullmatch(r"[A-Z_]+=.*", words[0]):
        name, _, env[name] = words.pop(0).partition("=")
    if words[0] == "torchfrtrace":
        return  # torch's own, which takes seconds to begin
    if words[0] == "sh":
        done = subprocess.run(words, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        if words[2].startswith("export "):
            Settings.from_environment(dict(each.split("=", 1) for each in done.stdout.split("\0") if each))
    elif words[:2] == ["paceline", "run"]:
        start(words[2:], env, desk)
    else:
        assert words[0] == "paceline", words
        few = FEW if words[1] == "simulate" and "--ranks" in words else ()
        code, out, err = paceline(*words[1:], *few)
        assert code == 0, err
        assert out
    if page == "docs/run/predict.md" and "PACELINE_REPORT" in env:  # the page goes on with a run on several machines
        whole = report((4 << 20, 1 << 20), [[0.1, 0.11, 0.1, 0.1]] * 8, named=True)
        (desk / env["PACELINE_REPORT"]).write_text(to_json(whole))


def start(words: list[str], env: Mapping[str, str], desk: Path) -> None:
    """Start the ranks as `paceline run` would; what examples print has its own test, in test_examples.py."""
    asked = split(words)
    ranks, program = int(asked.own[asked.own.index("-n") + 1]), list(asked.program)
    if asked.gives("-m"):
        program[0] = program[0].replace(".", "/") + ".py"
    while not program[0].endswith(".py"):  # python, with options of its own
        del program[0]
    if program[0].startswith("examples/") and not env:
        assert example(Path(program[0]).name)[0] == ranks
        return
    file = desk / program[0]
    torch = "torch" in file.read_text()
    if torch and not torchrun.installed():
        pytest.skip("torch is not installed")
    output = desk / "output"
    output.mkdir(exist_ok=True)
    if file.name == "long.py":  # it is to run while the reader looks at it
        file.write_text(file.read_text().replace("range(4000)", "range(1)"))
    within = {name: str(desk / value) for name, value in env.items() if name in FILES}  # ranks begin in another folder
    run(
        ranks,
        file,
        *program[1:],
        output=output,
        env={**env, **within, "PACELINE_TIMEOUT": "100"},
        imports=TORCH if torch else RAW,
    )
