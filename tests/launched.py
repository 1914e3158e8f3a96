"""Programs that ranks run in these tests, and ways to watch the processes."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil

DEADLINE = 150.0
"""Seconds, many times what anything here takes, also on a busy machine."""
ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"

# Each rank starts a helper that opens a session of its own and then a grandchild that nobody is the parent of any more;
# all of them write their pids to the folder, then sleep. With "stubborn" they ignore polite requests.
SLEEPERS = """
import os, signal, subprocess, sys, time
folder, manner = sys.argv[1], sys.argv[2]
if manner == "stubborn":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
def note(name):
    path = os.path.join(folder, f"{name}-{os.environ['RANK']}")
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note("orphan")
        time.sleep(600)
    os._exit(0)
os.wait()
note("rank")
time.sleep(600)
"""

# Rank 1 fails at once, the others a little later because of it.
# The others fail once rank 1 has ended; its pid is in the file that the argument names.
FAILING = """
import os, pathlib, sys, time
print("line of rank", os.environ["RANK"], file=sys.stderr)
first = pathlib.Path(sys.argv[1])
if os.environ["RANK"] == "1":
    first.with_suffix(".part").write_text(str(os.getpid()))
    first.with_suffix(".part").rename(first)
    raise ValueError("the root cause")
def running():
    try:
        return pathlib.Path("/proc", first.read_text(), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return not first.exists()
while running():
    time.sleep(0.01)
raise RuntimeError("a consequence")
"""

SHOW = """
import json, os, sys
folder = sys.argv[1]
facts = {"env": dict(os.environ), "argv": sys.argv, "terminal": sys.stderr.isatty()}
facts["cpus"] = sorted(os.sched_getaffinity(0))
with open(os.path.join(folder, f"rank-{os.environ['RANK']}.json"), "w") as file:
    json.dump(facts, file)
"""


def environment(**more: str) -> dict[str, str]:
    """This process's environment without what would change the launcher's plan, plus `more`."""
    unwanted = ("OMP_", "MKL_", "OPENBLAS_", "NUMEXPR_", "VECLIB_", "PACELINE_", "PET_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**kept, "PYTHONPATH": str(SOURCE), **more}


def paceline_run(*arguments: str | Path, env: dict[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start `paceline run`."""
    return subprocess.Popen(
        [sys.executable, "-m", "paceline", "run", *map(str, arguments)],
        env=env or environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]", seconds: float = DEADLINE) -> tuple[int, str, str]:
    """Exit code, stdout and stderr; a process that isn't done in time is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"still running after {seconds} s\n{out}\n{err}") from None
    return process.returncode, out, err


def example(name: str) -> tuple[int, Path]:
    """How many ranks the command in the docstring of a script in `examples` starts, and the script."""
    file = ROOT / "examples" / name
    match = re.search(r"paceline run -n (\d+) examples/(\S+?)\"\"\"", file.read_text())
    assert match is not None
    assert match[2] == name
    return int(match[1]), file


def run_example(name: str, *options: str) -> list[str]:
    """The lines that such a script prints, started with that command and these options."""
    ranks, file = example(name)
    code, out, err = finish(
        paceline_run("-n", str(ranks), *options, file, env=environment(PACELINE_TIMEOUT="100")), 250
    )
    assert code == 0, err
    return out.splitlines()


def program(folder: Path, text: str) -> Path:
    """Write the program to a file."""
    path = folder / "program.py"
    path.write_text(text)
    return path


def pids(folder: Path, names: list[str]) -> list[int]:
    """The pids that the files hold, waiting until all are there and written."""
    files = [folder / name for name in names]
    wait_until(lambda: all(file.exists() and file.read_text() for file in files), f"{names} in {folder}")
    return [int(file.read_text()) for file in files]


def facts(folder: Path, rank: int) -> dict[str, object]:
    """What `SHOW` found out in a rank."""
    found: dict[str, object] = json.loads((folder / f"rank-{rank}.json").read_text())
    return found


def gone(pid: int) -> bool:
    """True if the process has ended (a zombie has)."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def all_gone(processes: list[int]) -> None:
    """Fails the test, and kills what is left, unless all processes have ended within the time."""
    try:
        wait_until(lambda: all(map(gone, processes)), "all processes gone")
    finally:
        for pid in processes:
            if not gone(pid):
                os.kill(pid, signal.SIGKILL)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Poll; fails the test when the time is over."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE:g} s: {what}"
        time.sleep(0.02)
