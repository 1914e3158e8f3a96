"""Which machine this is, and which launch on it."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Machine:
    """Ranks with equal `name` use shared memory; ranks with equal `place` really share a kernel and its network."""

    name: str
    place: str
    host: str


def this_machine(name: str | None = None) -> Machine:
    """`name` (PACELINE_MACHINE) replaces the name, never the place."""
    place = _place()
    return Machine(name or place, place, socket.gethostname() or "unnamed")


def _place() -> str:
    """Boot identity and network namespace: abstract Unix sockets are seen by exactly those who share both."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}-{Path('/proc/self/ns/net').stat().st_ino}"
    except OSError:
        return f"{socket.gethostname()}-0"


def pid_namespace() -> int:
    """Identity of the namespace that this process's PID belongs to, 0 where it is unknown."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def is_dead(process: int) -> bool:
    """Whether a process of this PID namespace has ended, be it waited for or not."""
    try:
        state = _fields(process)[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    except (OSError, IndexError):  # out of descriptors, say: nothing is known
        return False
    return state in "ZX"


def launcher_identity(variable: str) -> str:
    """The process that started all ranks of this machine: the nearest ancestor whose environment lacks `variable`.

    That holds through wrapper scripts, and differs between two jobs that run at the same time.
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
    """Fields of /proc/PID/stat from the state on; the name before them may contain anything."""
    return Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()


def _parent(process: int) -> int:
    fields = _stat(process)
    return int(fields[1]) if len(fields) > 1 else 0


def _start_time(process: int) -> str:
    fields = _stat(process)
    return fields[19] if len(fields) > 19 else "0"
