"""`make demo` shows that what takes minutes goes on: scripts/show_progress."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SHOW = Path(__file__).parents[2] / "scripts" / "show_progress"
STEP = r"^ *\[\d+/\d+\] "
DEADLINE = 60


def shown(program: str, **options: object) -> "subprocess.CompletedProcess[str]":
    words = [sys.executable, str(SHOW), STEP, sys.executable, "-c", program]
    return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE, **options)  # type: ignore[call-overload]


def test_what_went_well_is_silent() -> None:
    done = shown("print('  [1/2] Building')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), 9)", 128 + signal.SIGKILL)])
def test_what_failed_is_shown_whole_and_its_code_handed_on(end: str, code: int) -> None:
    done = shown(f"import os, sys\nprint('[1/2] Building\\nerror: no such file', flush=True)\n{end}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "[1/2] Building\nerror: no such file\n")


@pytest.mark.needs("a terminal")
def test_a_terminal_sees_the_last_step_and_no_other_line() -> None:
    """The command ends once its step was seen."""
    ours, theirs = pty.openpty()
    waits = "import sys; print('  [7/9] Building engine.cpp\\nnoise', flush=True); sys.stdin.read()"
    words = [sys.executable, str(SHOW), STEP, sys.executable, "-c", waits]
    environment = {**os.environ, "TERM": "xterm", "NO_COLOR": ""}
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=theirs, env=environment) as process:
        os.close(theirs)
        seen, deadline = b"", time.monotonic() + DEADLINE
        while b" s  [7/9] Building engine.cpp\x1b[K" not in seen and time.monotonic() < deadline:
            seen += os.read(ours, 4096)
        assert process.stdin
        process.stdin.close()
        assert process.wait(DEADLINE) == 0
    os.close(ours)
    assert b"[7/9] Building engine.cpp" in seen
    assert b"noise" not in seen
