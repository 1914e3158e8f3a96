"""The command lines by which people tell jobs apart show no secret, and no more than fits on a line."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.observe.trace.command_line import command_line, shown

SECRET = "s3cr3t-W0rd"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["/usr/bin/python3", "-u", "train.py", "--epochs", "3"], "python3 -u train.py --epochs 3"),
        (["train", "--token", SECRET, "--epochs", "3"], "train --token *** --epochs 3"),
        (["train", "--hf-token", SECRET], "train --hf-token ***"),
        (["train", "-password", SECRET, "x"], "train -password *** x"),
        (["train", "--secret", f"-{SECRET}"], "train --secret ***"),
        (["train", f"--api_key={SECRET}", "x"], "train --api_key=*** x"),
        (["env", f"PACELINE_SECRET={SECRET}", "train"], "env PACELINE_SECRET=*** train"),
        (["env", f"PGPASSWORD={SECRET}", "train"], "env PGPASSWORD=*** train"),
        (["sh", "-c", f"cd x; HF_TOKEN={SECRET} train"], "sh -c cd x; HF_TOKEN=***"),
        (["sh", "-c", f"train --token {SECRET}"], "sh -c train --token ***"),
        (["train", f'{{"token": "{SECRET}"}}'], 'train {"token": ***'),
        (["train", f"postgres://me:{SECRET}@host/db"], "train postgres://me:***@host/db"),
        (["train", "--tokenizer", "gpt2", "--max-tokens", "9"], "train --tokenizer gpt2 --max-tokens 9"),
        (["train", "a\x1b[31m\nb"], "train a [31m b"),
        ([""], ""),
    ],
)
def test_what_is_shown_of_a_command_line(words: list[str], line: str) -> None:
    assert shown(words) == line


@given(st.lists(st.text(max_size=200), min_size=1, max_size=20))
def test_any_command_line_is_one_short_printable_line(words: list[str]) -> None:
    line = shown(words)
    assert len(line) <= 60
    assert line.isprintable()


def test_only_the_arguments_of_a_process_are_read() -> None:
    words = [sys.executable, "-c", "print(flush=True), input()", "train.py", "--token", SECRET]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(words, env={**os.environ, "MINE": SECRET}, **pipes) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()  # the kernel knows the arguments a little later than the file
            line = command_line(process.pid)
        finally:
            process.kill()
    assert line.endswith("-c print(flush=True), input() train.py --token ***")
    assert command_line(process.pid) == "", "it has ended"
