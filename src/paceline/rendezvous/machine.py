"""Identify this machine, its processes, and the launch that started this process."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from paceline.host_name import host_name


@dataclass(frozen=True, slots=True)
class Machine:
    """The identity of a machine.

    name: ranks with equal names use shared memory. place: ranks with equal places do share a kernel and its network
    namespace. host: the host name, for messages.
    """

    name: str
    place: str
    host: str


def this_machine(name: str | None = None) -> Machine:
    """Return this machine's identity. name: the text of PACELINE_MACHINE, which replaces the name but not the place."""
    place = _place()
    return Machine(name or place, place, host_name() or "unnamed")


def _place() -> str:
    """The boot identity and the network namespace: exactly the processes that share both see the same Unix sockets."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return f"{host_name()}-0"


def pid_namespace() -> int:
    """Return the identity of this process's PID namespace; 0 where it is not known."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_dead(process: int) -> bool:
    """Return whether a process of this PID namespace has ended, even if its parent has not waited for it yet."""
    try:
        state = _fields(process)[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, IndexError):  # its state is not known, for example because descriptors have run out
        return False
    return state in "ZX"


def launcher_identity(variable: str) -> str:
    """Return a text that identifies the process that started all ranks of this machine, by its PID and start time.

    It is the nearest ancestor whose environment lacks `variable`. That works through wrapper scripts, and the result
    differs between jobs that run at the same time.
    """
    process = os.getppid()
    while process > 1 and _environment_has(process, variable):
        process = _parent(process)
    return f"{process}-{_start_time(process)}"


def _environment_has(process: int, variable: str) -> bool:
    try:
        entries = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(entry.startswith(variable.encode() + b"=") for entry in entries)


def _stat(process: int) -> list[str]:
    try:
        return _fields(process)
    except OSError:
        return []


def _fields(process: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; the name before them can contain any characters."""
    return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _parent(process: int) -> int:
    fields = _stat(process)
    return int(fields[1]) if len(fields) > 1 else 0


def _start_time(process: int) -> str:
    fields = _stat(process)
    return fields[19] if len(fields) > 19 else "0"
