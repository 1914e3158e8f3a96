"""The systems that can be measured, where they come from, and how their ranks are started."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

PEERS = ("gloo", "openmpi", "mpich")
PATHS = ("engine", "torch")
EXTRA = 'pip install "paceline[bench]"'


class Missing(Exception):
    """A system can't be measured here; the text is one sentence that says what to do."""


@dataclass(frozen=True)
class System:
    """One thing to measure.

    path: "engine" (Paceline's raw call), "torch" (through torch.distributed) or "mpi4py" (MPI's raw call from Python).
    adapter: "module:class"; a module that begins with a dot lies in `paceline.bench.ranks`.
    launcher: "local" (ranks started directly), "openmpi" or "mpich" (by their own launchers).
    python: the interpreter whose environment holds the system.
    environment: added to what the ranks inherit.
    """

    name: str
    path: str
    adapter: str
    options: dict[str, str] = field(default_factory=dict)
    launcher: str = "local"
    python: Path = Path(sys.executable)
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name and path, unique within a run."""
        return f"{self.name}/{self.path}"


def paceline(path: str) -> System:
    """Paceline itself by one of `PATHS`; raises Missing."""
    if importlib.util.find_spec("paceline._engine") is None:
        raise Missing("paceline's engine is not built: install the package, or build it with `make`.")
    if path == "engine":
        return System("paceline", "engine", ".raw:Raw")
    _need_torch("the torch path")
    return System("paceline", "torch", ".torch_distributed:PacelineTorch")


def peer(name: str, prefix: Path, machines: int = 1) -> System:
    """A peer by one of `PEERS`; MPI peers are looked up in the environment `prefix`. Raises Missing."""
    if name == "gloo":
        _need_torch("gloo")
        return System("gloo", "torch", ".torch_distributed:Gloo")
    if machines > 1:
        raise Missing(f"{name} is measured on one machine only: leave it out, or leave --machines out.")
    library, launcher = MPI_FILES[name]
    python = Path(sys.executable) if prefix == Path(sys.prefix) else prefix / "bin" / "python"
    absent = [str(file) for file in (library, launcher) if not (prefix / file).exists()]
    if absent or not _has_mpi4py(python):
        what = ", ".join(absent) or "mpi4py"
        raise Missing(f"{name} is not installed in {prefix} (no {what}): {EXTRA} brings it.")
    return System(name, "mpi4py", ".mpi:Mpi", launcher=name, python=python)


# The wheels of both put a `mpirun` in the same place, and the last one installed wins: these names don't collide.
MPI_FILES = {
    "openmpi": (Path("lib/libmpi.so.40"), Path("bin/prterun")),
    "mpich": (Path("lib/libmpi.so.12"), Path("bin/mpiexec.hydra")),
}


def _need_torch(what: str) -> None:
    if importlib.util.find_spec("torch") is None:
        raise Missing(f"{what} needs torch, which is not installed in {sys.prefix}.")


def _has_mpi4py(python: Path) -> bool:
    check = "from importlib.util import find_spec as f; raise SystemExit(not (f('mpi4py') and f('numpy')))"
    try:
        return subprocess.run([python, "-c", check], timeout=30, capture_output=True).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
