"""A copy of this checkout, whose package Python takes in place of the installed one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from paceline.launch import tree

ROOT = Path(__file__).parents[2]
BUILDING = 3600.0
"""Seconds that a build of the engine may take."""
# An editable install finds modules before PYTHONPATH is looked at.
FIRST = """
import glob
import importlib.util
import sys
from importlib.machinery import PathFinder


class Copied:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "paceline":
            return PathFinder.find_spec(name, ["{src}"])
        if name == "paceline._engine" and (built := glob.glob("{built}/_engine.*.so")):
            return importlib.util.spec_from_file_location(name, built[0])
        return PathFinder.find_spec(name, path) if name.startswith("paceline.") else None


sys.meta_path.insert(0, Copied)
"""


class Unusable(Exception):
    """What was to be done with the copy cannot be done."""


class Copy:
    """The files of this checkout that git knows or does not ignore, in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        listed = _run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], ROOT).split("\0")
        for name in filter(None, listed):
            if (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        self._built = folder / "build" / "put_back"
        first = folder / "build" / "first"
        first.mkdir(parents=True)
        (first / "sitecustomize.py").write_text(FIRST.format(src=folder / "src", built=self._built))
        self._path = f"{folder / 'tests'}{os.pathsep}{first}"

    def apply(self, patch: Path) -> None:
        """Apply a patch. Raises Unusable where the code that it changes is no longer there."""
        try:
            _run(["git", "apply", str(patch)], self.folder)
        except Unusable as error:
            raise Unusable(f"{patch.name} no longer applies: {error}") from error

    def build_engine(self) -> None:
        """Build the copy's engine, which its package then takes."""
        launched = {
            "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
            "CCACHE_BASEDIR": str(self.folder),
            "CCACHE_NOHASHDIR": "1",
        }
        env = {**os.environ, **(launched if shutil.which("ccache") else {})}
        python = f"-DPython_EXECUTABLE={sys.executable}"
        configure = ["cmake", "-S", ".", "-B", str(self._built), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", python]
        _run(configure, self.folder, env)
        _run(["cmake", "--build", str(self._built), "--target", "_engine", "--", "--quiet"], self.folder, env)

    def run(self, command: Sequence[str], seconds: float) -> str:
        """Run a command with the copy's package; returns its output. Raises Unusable if it takes longer.

        What it leaves running is ended: that may be what the fault is about.
        """
        mark = tree.new_mark(os.environ)
        env = {**os.environ, "PYTHONPATH": self._path, tree.MARK: mark}
        process = subprocess.Popen(command, cwd=self.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        try:
            return process.communicate(timeout=seconds)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            raise Unusable(f"{' '.join(command[1:])} did not end within {seconds:g} s") from None
        finally:
            tree.end(mark, [process.pid], grace=0.0)
            process.wait()


def _run(command: Sequence[str], folder: Path, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=BUILDING)
    if done.returncode:
        raise Unusable(f"{command[0]}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout
