"""Build the wheel as `pip wheel .` does, install it with what it declares, and all-reduce between two processes.

The two processes see an empty PATH and no framework. The build has a folder beside that of the editable install, so
that ccache, where it is there, finds what the same commands made.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "wheel-check"
RANKS = 2
DEADLINE = 60  # seconds

PROGRAM = """
import importlib.util
import sys
import numpy
import paceline

assert importlib.util.find_spec("torch") is None
with paceline.init() as group:
    array = numpy.full(1000, group.rank + 1, dtype=numpy.float32)
    group.all_reduce(array)
    assert (array == group.size * (group.size + 1) / 2).all(), array
print(f"rank {group.rank}: paceline from {paceline.__file__}")
"""


def pip(python: str | Path, *arguments: str | Path, build: Path | None = None) -> None:
    environment = {**os.environ, "SKBUILD_BUILD_DIR": str(build)} if build else None
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def check_modules(wheel: Path) -> None:
    """What only tests need is not in it."""
    modules = [name for name in zipfile.ZipFile(wheel).namelist() if ".so" in Path(name).suffixes]
    if sorted(Path(name).name.partition(".")[0] for name in modules) != ["_engine", "_jax", "_mpi", "_tensorflow"]:
        sys.exit(f"wheel check: it should have the engine and the libraries for frameworks, and has {modules}")


def run_ranks(python: Path, folder: Path) -> None:
    world = {"WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        subprocess.Popen([python, "-c", PROGRAM], cwd=folder, env={**world, "RANK": str(rank), "PATH": "/nonexistent"})
        for rank in range(RANKS)
    ]
    try:
        codes = [rank.wait(DEADLINE) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    if any(codes):
        sys.exit(f"wheel check: the ranks exited with {codes}")


def launch_ranks(python: Path, folder: Path) -> None:
    """The launcher starts the same ranks."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    words = ["-m", "paceline", "run", "-n", str(RANKS), program]
    done = subprocess.run([python, *words], cwd=folder, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode:
        sys.exit(f"wheel check: `paceline run` ended with {done.returncode} and said {done.stderr!r}")


def check_demo(python: Path) -> None:
    """Without torch the demo says what it needs, in one sentence."""
    done = subprocess.run([python, "-m", "paceline", "demo"], capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != 2 or not done.stderr.startswith("paceline demo: needs torch and scikit-learn; pip install "):
        sys.exit(f"wheel check: the demo ended with {done.returncode} and said {done.stderr!r}")


def check_instruments(python: Path, folder: Path) -> None:
    """The instruments of bench/ are found once they are installed, and asked for before."""
    command = [python, "-m", "paceline", "bench", "--help"]
    before = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    if before.returncode != 2 or "pip install 'paceline[bench]'" not in before.stderr:
        sys.exit(f"wheel check: without paceline-bench, bench ended with {before.returncode}: {before.stderr!r}")
    pip(sys.executable, "wheel", "./bench", "--no-deps", "--wheel-dir", folder)
    (wheel,) = folder.glob("paceline_bench-*.whl")
    pip(sys.executable, "--python", python, "install", "--no-deps", "--no-compile", wheel)
    after = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE)
    if after.returncode or "all_reduce" not in after.stdout:
        sys.exit(f"wheel check: `paceline bench --help` ended with {after.returncode}: {after.stderr!r}")
    measured = [*command[:-1], "reductions", "--cached", "4K", "--large", "64K", "--rounds", "3"]
    done = subprocess.run(measured, capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode:
        sys.exit(f"wheel check: `paceline bench reductions` ended with {done.returncode}: {done.stderr!r}")


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="paceline-wheel-") as name:
        folder = Path(name)
        shutil.rmtree(BUILD, ignore_errors=True)
        pip(sys.executable, "wheel", ".", "--no-deps", "--wheel-dir", folder, build=BUILD)
        (wheel,) = folder.glob("paceline-*.whl")
        check_modules(wheel)
        venv.create(folder / "venv")
        python = folder / "venv" / "bin" / "python"
        # What is installed is used once: compiling all of it to bytecode takes longer than the rest.
        here = ("--python", python, "install", "--no-compile")
        pip(sys.executable, *here, wheel, "--constraint", "requirements/demo.lock")
        run_ranks(python, folder)
        launch_ranks(python, folder)
        check_demo(python)
        check_instruments(python, folder)
        size = wheel.stat().st_size / 1e6
        print(f"wheel check: {wheel.name} ({size:.1f} MB) works without a compiler and without torch")


if __name__ == "__main__":
    main()
