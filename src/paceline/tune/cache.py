"""The knowledge about a script on a machine, kept for the next search and for `paceline run --tuned`."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

from paceline.cpu.budget import CpuBudget
from paceline.cpu.cgroup import read_file
from paceline.formats.files import write_file
from paceline.launch.threads import THREAD_VARIABLES
from paceline.tune.run import Run
from paceline.tune.setting import Setting

FORMAT = "paceline tune 1"
MAX_BYTES = 16 * 2**20
"""Bytes of the largest file that is read, of the cache and of the user's command."""
_PACKAGES = ("paceline", "torch", "tensorflow", "jax", "numpy")
_VARIABLES = re.compile(r"PACELINE_|OMP_|KMP_|GOMP_|MKL_|OPENBLAS_")
_OF_A_JOB = ("PACELINE_LAB", "PACELINE_LAUNCH", "PACELINE_SECRET", "PACELINE_TOPOLOGY")
_REPLACED = ("PACELINE_CORES", *_OF_A_JOB, *THREAD_VARIABLES)


@dataclass(frozen=True)
class Known:
    """The knowledge about a script: the runs so far, the choice, and whether the search for it came to its end."""

    runs: tuple[Run, ...] = ()
    chosen: Setting | None = None
    complete: bool = False
    format: str = FORMAT

    def find(self, setting: Setting, number: int, seconds: float) -> Run | None:
        """Return this run of the setting, in which steps were measured for so many seconds; None if there is none."""
        wanted = setting, number, seconds
        return next((run for run in self.runs if (run.setting, run.number, run.seconds) == wanted), None)


class Cache:
    """The file for one command on one machine.

    It stays the same as long as the command, the content of the files that it names, the folder, the CPUs, the topology
    and whether it is a lab's, the versions of Python, Paceline and the frameworks, and the variables that Paceline and
    numeric libraries read do. Modules that the script imports are not looked at.

    words: the user's command. environ: the user's environment. budget: the CPUs of this process.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str], budget: CpuBudget) -> None:
        given = environ.get("XDG_CACHE_HOME", "")
        folder = Path(given) if Path(given).is_absolute() else Path(environ.get("HOME") or Path.home()) / ".cache"
        key = json.dumps(_key(words, environ, budget), sort_keys=True).encode(errors="surrogateescape")
        self.path = folder / "paceline" / "tune" / f"{hashlib.sha256(key).hexdigest()[:32]}.json"

    def read(self) -> Known:
        """Return what is known; nothing is if there is no such file, or one that Paceline has not written."""
        from pydantic import TypeAdapter, ValidationError

        try:
            with self.path.open("rb") as file:
                content = file.read(MAX_BYTES)
            found = TypeAdapter(Known).validate_json(content)
        except (OSError, ValidationError):
            return Known()
        return found if found.format == FORMAT else Known()

    def write(self, known: Known) -> None:
        """Replace the file. Raises OSError if that is not possible."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_file(self.path, json.dumps(asdict(known)))


def _key(words: Sequence[str], environ: Mapping[str, str], budget: CpuBudget) -> dict[str, object]:
    ours = {name: value for name, value in environ.items() if _VARIABLES.match(name) and name not in _REPLACED}
    return {
        "format": FORMAT,
        "words": list(words),
        "folder": str(Path.cwd()),
        "files": {word: digest for word in words if (digest := _digest(word))},
        "cpus": [budget.affinity, budget.quota, _model()],
        "versions": [sys.version, platform.release(), *map(_version, _PACKAGES)],
        "network": ["PACELINE_LAB" in environ, _digest(environ.get("PACELINE_TOPOLOGY", ""))],
        "environment": ours,
    }


def _digest(word: str) -> str:
    """The content of the file that a word of the command names; "" if it names none that could be a script."""
    path = Path(word)
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return ""
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except (OSError, ValueError):
        return ""


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _model() -> str:
    found = re.search(r"^(?:model name|CPU part)\s*:\s*(.+)$", read_file("/proc/cpuinfo") or "", re.MULTILINE)
    return found[1] if found else platform.machine()
