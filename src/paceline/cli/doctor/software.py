"""Software: the machine, Python, torch and the engine."""

import importlib.metadata
import platform
from pathlib import Path

from paceline.cli.doctor.finding import Environment, Finding
from paceline.version import NEWEST_TORCH, OLDEST_TORCH


def machine(here: Environment) -> Finding:
    """Report the name by which ranks recognise that they share this machine."""
    from paceline.rendezvous.machine import this_machine

    found = this_machine(here.settings.machine)
    around = container()
    where = f"{found.host}, Linux {platform.release()}, {platform.machine()}" + (f", in {around}" if around else "")
    how = "PACELINE_MACHINE" if here.settings.machine else "boot id and network namespace"
    return Finding("machine", where, f"known to other ranks as {found.name} ({how})")


def container() -> str:
    """Return the kind of container that this process is in, as far as it can be seen; "" for none."""
    for path, name in (("/.dockerenv", "a Docker container"), ("/run/.containerenv", "a Podman container")):
        if Path(path).exists():
            return name
    try:
        groups = Path("/proc/self/cgroup").read_text()
        init = Path("/proc/1/sched").read_text(errors="replace")
    except OSError:
        return ""
    for word, name in (
        ("kubepods", "a Kubernetes pod"),
        ("docker", "a Docker container"),
        ("lxc", "an LXC container"),
    ):
        if word in groups:
            return name
    first = init.split(" ", 1)[0]
    return "" if first in ("systemd", "init") or "(1, " in init[:64] else "a process namespace of its own"


def python(here: Environment) -> Finding:
    """Report the version of the interpreter."""
    return Finding(
        "Python", platform.python_version(), "there is one wheel per Python version; the engine never takes the GIL"
    )


def torch(here: Environment) -> Finding:
    """Report torch's version, without importing it, and whether it is supported."""
    try:
        version = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return Finding(
            "torch",
            "not installed",
            "the raw interface (paceline.init) works without it, and paceline run starts ranks itself",
        )
    supported = f"{_dotted(OLDEST_TORCH)} to {_dotted(NEWEST_TORCH)}"
    numbers = tuple(int(part) for part in version.split("+")[0].split(".")[:2] if part.isdigit())
    if OLDEST_TORCH <= numbers <= NEWEST_TORCH:
        return Finding("torch", version, f"supported: {supported}")
    return Finding("torch", f"{version}, not supported", f"supported: {supported}", f"install torch {supported}")


def engine(here: Environment) -> Finding:
    """Report the engine and the instruction set of its reductions."""
    from paceline import _engine

    isa = _engine.isa()
    advice = (
        ""
        if isa != "baseline"
        else "reductions run without vector instructions, because this CPU has none that the engine uses"
    )
    return Finding("engine", f"reduces with {isa}", "the widest instructions that this CPU has", advice)


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
