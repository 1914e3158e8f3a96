"""Workers of a run share interpreters, and each has what it started to itself."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import left_behind
import psutil
import pytest
import warm_python
from launched import all_gone
from warm_python import WarmPython

SLEEPS = "import sys, time\nprint(sys.stdin.readline(), flush=True)\ntime.sleep(600)\n"
MODULES = ("fractions",)
RUN = """
import os, sys
from pathlib import Path
import left_behind, warm_python
left_behind.mark()
folder = warm_python.share()
warm = warm_python.WarmPython(("fractions",), number=0)
rank = warm.start([sys.argv[1]], os.environ, Path(sys.argv[2]), Path(sys.argv[3]))
print(rank.pid, warm_python._started[0].pid, folder, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "program.py"
    path.write_text(SLEEPS)
    return path


def test_what_is_forked_from_a_shared_interpreter_belongs_to_who_asked(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(warm_python.SHARED, "")
    folder = warm_python.share()
    before = set(psutil.pids())
    first, second = WarmPython(MODULES, number=0), WarmPython(MODULES, number=0)
    ours, theirs = os.pipe()
    try:
        ranks = [
            warm.start([str(program)], os.environ, tmp_path / f"{name}.out", tmp_path / f"{name}.err", ours)
            for name, warm in (("first", first), ("second", second))
        ]
        parents = [psutil.Process(rank.pid).parent() for rank in ranks]
        shared = [parent.parent() for parent in parents if parent is not None]
        assert len(set(parents)) == 2 and len(set(shared)) == 1, "each has a process of its own, from the same one"
        monkeypatch.setattr(left_behind, "GRACE", 0.0)
        assert {process.pid for process in left_behind.started_since(before)} == {rank.pid for rank in ranks}
        os.write(theirs, b"a line\na line\n")
        first.close()
        all_gone([ranks[0].pid])
        assert ranks[1].poll() is None
        second.close()
        all_gone([ranks[1].pid])
        assert left_behind.started_since(before) == []
    finally:
        os.close(ours)
        os.close(theirs)
        shutil.rmtree(folder)
        warm_python._started.pop().kill()


def test_nothing_outlives_a_run_that_is_killed(program: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", RUN, str(program), str(tmp_path / "out"), str(tmp_path / "err")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        *pids, folder = run.stdout.readline().split()
        run.kill()
    all_gone([int(pid) for pid in pids])
    shutil.rmtree(folder)
