"""What some tests need of a system beyond Python and a compiler, asked for by trying it, once, when a test wants it.

A test says `@pytest.mark.needs("a lab")`. Where that is not to be had it skips, and the reason says what was tried, how
it failed, and what would let the test run. With STRICT_TESTS=1, as in our own CI, such a skip is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ROOT / "requirements" / "system-packages.txt"
STRICT = "STRICT_TESTS"
SECONDS = 60
"""For one try."""
_CONTAINER = "run as root in a container with more rights: docker run --privileged"


@dataclass(frozen=True)
class Need:
    """Something that a test needs.

    obstacle: tries it, and returns why it is not to be had; None where it is. remedy: what a person does to get it.
    everywhere: whether strict runs insist on it.
    """

    obstacle: Callable[[], str | None]
    remedy: str
    everywhere: bool = True


@cache
def missing(name: str) -> str | None:
    """The sentence with which a test that needs `name` skips; None where it is to be had.

    Raises KeyError for a name that is neither in NEEDS nor a package of system-packages.txt.
    """
    need = NEEDS[name] if name in NEEDS else _package(name)
    obstacle = need.obstacle()
    return None if obstacle is None else f"needs {name}: {' '.join(obstacle.split())}; to run it, {need.remedy}"


def skip_without(name: str) -> None:
    """Skip the running test, saying why, unless `name` is to be had."""
    if (reason := missing(name)) is not None:
        pytest.skip(reason)


def refused(reason: str) -> bool:
    """Whether a strict run takes a skip for this reason as a failure."""
    if os.environ.get(STRICT) != "1" or not reason.startswith("needs "):
        return False
    name = reason.removeprefix("needs ").partition(":")[0]
    return name not in NEEDS or NEEDS[name].everywhere


def which(command: str) -> str | None:
    # Debian keeps `ip` and its like out of an ordinary user's PATH.
    return shutil.which(command) or shutil.which(command, path="/usr/sbin:/sbin")


@contextmanager
def control_group(controller: str, limits: Sequence[tuple[str, str]]) -> Iterator[Path]:
    """A control group that has these limits and holds nobody yet, of version 1 or 2.

    controller: its name in version 1. limits: for version 1 and for version 2 the file of the limit, and its words.
    Raises OSError where that cannot be made.
    """
    roots = (Path("/sys/fs/cgroup", controller), Path("/sys/fs/cgroup"))
    version = 0 if roots[0].is_dir() else 1
    file, words = limits[version]
    folder = roots[version] / f"paceline-test-{os.getpid()}-{controller}"
    folder.mkdir()
    try:
        (folder / file).write_text(words)
        yield folder
    finally:
        folder.rmdir()


ONE_CPU = (("cpu.cfs_quota_us", "100000"), ("cpu.max", "100000 100000"))
"""Microseconds of CPU time in each 100 ms."""
LESS_MEMORY = (("memory.limit_in_bytes", str(64 << 20)), ("memory.max", str(64 << 20)))


def inside(folder: Path) -> tuple[str, ...]:
    """The words that run the rest of a command line in this control group."""
    return ("sh", "-c", f'echo $$ > "{folder}/cgroup.procs" && exec "$@"', "sh")


def _limited(controller: str, limits: Sequence[tuple[str, str]]) -> str | None:
    try:
        with control_group(controller, limits) as folder:
            return _fails(*inside(folder), "true")
    except OSError as error:
        return f"no control group that limits it can be made ({error.strerror})"


def _fails(*words: str) -> str | None:
    """The end of what the command says when it fails; None when it works."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, errors="replace", timeout=SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    said = done.stderr.strip() or f"exit code {done.returncode}"
    return f"`{words[0]}` failed: {said[-300:]}" if done.returncode else None


def _lab() -> str | None:
    from paceline.lab.lab import Lab, switched
    from paceline.lab.namespaces import Unavailable
    from paceline.topology import Link

    try:
        with Lab(switched((1, 1), Link(12.5e6, 12.5e6))):
            return None
    except Unavailable as error:
        return re.sub(r"paceline-\S+", "NAME", str(error))  # the same sentence in every process


def _terminal() -> str | None:
    try:
        for descriptor in os.openpty():
            os.close(descriptor)
    except OSError as error:
        return f"no pseudo-terminal can be opened ({error})"
    return None


def _simgrid() -> str | None:
    return _fails("/usr/bin/python3", "-c", "import simgrid")


def _command(name: str) -> Callable[[], str | None]:
    return lambda: None if which(name) else f"there is no command {name}"


def _package(name: str) -> Need:
    return Need(_command(packages()[name]), f"install the Debian package {name} as root")


@cache
def packages() -> dict[str, str]:
    """Debian package -> the command or the file that shows it is there."""
    lines = (line.partition("#")[0].split() for line in PACKAGES.read_text().splitlines())
    return {words[0]: words[1] for words in lines if words}


def _checkout() -> str | None:
    if (why := _command("git")()) is not None:
        return why
    return _fails("git", "-C", str(ROOT), "ls-files", "--error-unmatch", "pytest.ini")


def _cores() -> str | None:
    from paceline.cpu.budget import physical_cores

    return None if len(physical_cores(os.sched_getaffinity(0))) > 1 else "there is one core, and nothing to divide"


NEEDS = {
    "a lab": Need(_lab, f"{_CONTAINER}, with Debian's iproute2"),
    "mounts of its own": Need(
        lambda: _fails("unshare", "--mount", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /dev/shm"), _CONTAINER
    ),
    "process namespaces": Need(lambda: _fails("unshare", "--pid", "--fork", "--kill-child", "true"), _CONTAINER),
    "user namespaces": Need(lambda: _fails("unshare", "--user", "true"), "allow user namespaces"),
    "a limit of CPUs": Need(lambda: _limited("cpu", ONE_CPU), "run as root where control groups can be written to"),
    "a limit of memory": Need(
        lambda: _limited("memory", LESS_MEMORY), "run as root where control groups can be written to"
    ),
    "a terminal": Need(_terminal, "mount devpts on /dev/pts"),
    "python3-simgrid": Need(_simgrid, "install the Debian package python3-simgrid as root"),
    "a git checkout": Need(_checkout, "clone the repository, as git knows which files are its own"),
    "two cores": Need(_cores, "use a machine with two cores or more"),
    "readelf": Need(_command("readelf"), "install the Debian package binutils"),
    "chromium": Need(_command("chromium"), "install the Debian package chromium (340 MB)", everywhere=False),
}
