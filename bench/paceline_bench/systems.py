"""The systems that can be measured, where they are installed, and how their ranks are started."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path

PEERS = ("gloo", "openmpi", "mpich", "intelmpi")
PATHS = ("engine", "torch")
BUFFERS = ("any", "arena")
EXTRA = 'pip install "paceline[bench]"'
INTEL_REMEDY = "`make bench-peers` brings it, as do `python -m venv {0}` and `{0}/bin/pip install impi-rt mpi4py numpy`"


class Missing(Exception):
    """A system cannot be measured here; the text is one sentence that says what to do."""


@dataclass(frozen=True)
class System:
    """One system to measure.

    path: "engine" (Paceline's raw call), "torch" (through torch.distributed), "named" (through Horovod's API), "jax"
    (through paceline.jax), "psum" (JAX's own collective), "tensorflow" (from a `tf.function`) or "mpi4py" (MPI's raw
    call from Python). adapter: "module:class"; a module that begins with a dot is in `paceline_bench.ranks`. options:
    passed to the adapter.
    launcher: "local" (ranks are started directly), "openmpi", "mpich" or "intelmpi" (by their own launchers). python:
    the interpreter whose environment holds the system.
    environment: variables added to those that the ranks inherit. variant: distinguishes systems that differ only in a
    setting; the best of them is reported at each size. asked: the algorithm that it is told to use, "" if it chooses
    itself. codec: encodes the data between machines; "" is for a system that is given no codec, not even "none".
    machines: the number that ranks on this machine take it for, so that they exchange messages and encode them.
    buffer: the memory of the data: "any", or what the system itself allocates. restless: whether it continues to work
    between two orders, so that its ranks must be stopped meanwhile.
    """

    name: str
    path: str
    adapter: str
    options: dict[str, str] = field(default_factory=dict)
    launcher: str = "local"
    python: Path = Path(sys.executable)
    environment: dict[str, str] = field(default_factory=dict)
    variant: str = ""
    asked: str = ""
    codec: str = ""
    buffer: str = "any"
    restless: bool = False
    machines: int = 1

    @property
    def label(self) -> str:
        """Identifies the system within a run."""
        own = "" if self.buffer == "any" else self.buffer
        return "/".join(word for word in (self.name, self.path, self.asked, self.codec, own, self.variant) if word)


def paceline(path: str, buffer: str = "any", algorithm: str = "", codec: str = "") -> System:
    """Return Paceline as a system.

    path: one of `PATHS`. buffer: one of `BUFFERS`. algorithm: the one to use; "" lets Paceline choose. codec: see
    `System`; only the path "engine" takes one.

    Raises Missing if the engine, or torch for the path "torch", is not installed.
    """
    if importlib.util.find_spec("paceline._engine") is None:
        raise Missing("paceline's engine is not built: install the package, or build it with `make`.")
    if path == "torch":
        _need_torch("the torch path")
    adapter = ".raw:Raw" if path == "engine" else ".torch_distributed:PacelineTorch"
    environment = {"PACELINE_ALGORITHM": algorithm} if algorithm else {}
    options = {"buffer": buffer}
    return System(
        "paceline", path, adapter, options, environment=environment, asked=algorithm, codec=codec, buffer=buffer
    )


def peer(name: str, prefix: Path, collective: str = "all_reduce", crowded: bool = False) -> list[System]:
    """Return a peer, one of `PEERS`, once for each setting worth trying.

    prefix: the environment that holds the MPIs; Intel MPI has an environment of its own, `peers/intelmpi` below it.
    crowded: whether ranks share CPUs; then the MPIs' other ways to wait are worth trying.

    Raises Missing if it is not installed.
    """
    if name == "gloo":
        _need_torch("gloo")
        return [System("gloo", "torch", ".torch_distributed:Gloo")]
    own = prefix / "peers" / "intelmpi"
    intel = name == "intelmpi"
    python = (
        _mpi_python(name, own, INTEL_REMEDY.format(own)) if intel else _mpi_python(name, prefix, f"{EXTRA} brings it")
    )
    settings = _SETTINGS[name] + (_CROWDED[name] if crowded else [])
    ours = [one for one in settings if collective == "all_reduce" or "I_MPI_ADJUST_ALLREDUCE" not in one]
    return [_mpi(name, python, one) for one in ours]


def by_name(prefix: Path) -> list[System]:
    """Return Paceline and Horovod, which reduce gradients by name through Horovod's API.

    prefix: the environment that holds Horovod.

    Both still need the option `gradients`: names and numbers of elements, as JSON. Raises Missing.
    """
    ours, python = _named(), interpreter(prefix)
    if not has(python, "horovod", "torch", "numpy"):
        raise Missing(f"horovod is not installed in {prefix} with torch and NumPy; --peers names where it is.")
    return [ours, replace(ours, name="horovod", options={"module": "horovod.torch"}, python=python, restless=True)]


def in_jax(prefix: Path) -> list[System]:
    """Return Paceline's raw call and its functions for JAX, and JAX's own psum over Paceline and over Gloo.

    prefix: the environment that holds JAX, and in which Paceline can be imported. Raises Missing.
    """
    ours, python = paceline("engine"), interpreter(prefix)
    if not has(python, "jax", "paceline"):
        raise Missing(f"JAX and Paceline are not installed in {prefix}; --peers names where they are.")
    return [
        replace(ours, python=python),
        replace(ours, path="jax", adapter=".jax_arrays:Functions", python=python),
        replace(
            ours,
            path="psum",
            adapter=".jax_over_paceline:PsumOverPaceline",
            options={"implementation": "paceline"},
            python=python,
        ),
        System("gloo", "psum", ".jax_arrays:Psum", {"implementation": "gloo"}, python=python),
    ]


def in_tensorflow(prefix: Path) -> list[System]:
    """Return Paceline's faces for torch and for TensorFlow, and TensorFlow's own MultiWorkerMirroredStrategy.

    prefix: the environment that holds TensorFlow, and in which Paceline can be imported.

    All still need the option `gradients`: names and numbers of elements, as JSON. Raises Missing.
    """
    named, python = _named(), interpreter(prefix)
    if not has(python, "tensorflow", "paceline"):
        raise Missing(f"TensorFlow and Paceline are not installed in {prefix}; --peers names where they are.")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
    ours = replace(named, path="tensorflow", adapter=".tf_gradients:Tape", options={}, python=python, environment=quiet)
    made = replace(named, adapter=".by_name:MadeByName")
    return [made, ours, replace(ours, name="mirrored", adapter=".tf_gradients:Mirrored")]


def _named() -> System:
    return replace(
        paceline("torch"), path="named", adapter=".by_name:ByName", options={"module": "paceline.horovod.torch"}
    )


def _mpi(name: str, python: Path, settings: dict[str, str]) -> System:
    variant = " ".join(f"{variable}={value}" for variable, value in settings.items())
    return System(name, "mpi4py", ".mpi:Mpi", {"algorithm": variant or "default"}, name, python, settings, variant)


# The wheels all install a `mpirun` in the same place, and the last one installed wins; these names of the first two do
# not collide. Intel MPI derives from MPICH and its library has the same name, so it cannot be in the same place.
MPI_FILES = {
    "openmpi": (Path("lib/libmpi.so.40"), Path("bin/prterun")),
    "mpich": (Path("lib/libmpi.so.12"), Path("bin/mpiexec.hydra")),
    "intelmpi": (Path("lib/libmpi.so.12"), Path("bin/mpiexec.hydra")),
}

# Each MPI's own choice; two of Intel MPI's algorithms over shared memory beat its choice at some sizes.
_SETTINGS: dict[str, list[dict[str, str]]] = {
    "openmpi": [{}],
    "mpich": [{}],
    "intelmpi": [{}, {"I_MPI_ADJUST_ALLREDUCE": "11"}, {"I_MPI_ADJUST_ALLREDUCE": "14"}],
}

# Settings with which a waiting rank sleeps for a moment, or yields, instead of polling.
_CROWDED: dict[str, list[dict[str, str]]] = {
    "openmpi": [{"OMPI_MCA_threads_pthreads_yield_strategy": "nanosleep"}],
    "mpich": [{"MPIR_CVAR_CH4_PROGRESS_THROTTLE": "1", "MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT": "1"}],
    "intelmpi": [{"I_MPI_WAIT_MODE": "1"}],
}


def _mpi_python(name: str, prefix: Path, remedy: str) -> Path:
    """Return the interpreter of the environment that holds an MPI peer. Raises Missing."""
    python = interpreter(prefix)
    absent = [str(file) for file in MPI_FILES[name] if not _exists(prefix / file)]
    if absent or not has(python, "mpi4py", "numpy"):
        what = ", ".join(absent) or "mpi4py"
        raise Missing(f"{name} is not installed in {prefix} (no {what}): {remedy}.")
    return python


def _need_torch(what: str) -> None:
    if importlib.util.find_spec("torch") is None:
        raise Missing(f"{what} needs torch, which is not installed in {sys.prefix}.")


def interpreter(prefix: Path) -> Path:
    """Return the interpreter of an environment."""
    return Path(sys.executable) if prefix == Path(sys.prefix) else prefix / "bin" / "python"


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError:  # the text cannot be a file's name
        return False


def has(python: Path, *modules: str) -> bool:
    """Return whether the interpreter runs and finds all modules, which it does not import."""
    check = f"from importlib.util import find_spec; raise SystemExit(not all(map(find_spec, {modules!r})))"
    try:
        return subprocess.run([python, "-c", check], timeout=30, capture_output=True).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
