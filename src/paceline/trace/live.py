"""Questions to the ranks that are running on this machine; their traces."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from paceline.trace.dump import MAX_FILE_BYTES, Dump, decode
from paceline.trace.event import Event
from paceline.trace.listener import LENGTH, Name, user_of
from paceline.trace.seconds import shown

SECONDS = 5.0
"""How long a rank may take to answer. All are asked at once."""

T = TypeVar("T")

_LISTENS = 0x10000  # __SO_ACCEPTCON in /proc/net/unix
_AT_ONCE = 64


@dataclass(frozen=True)
class Silence:
    """A rank that gave no trace, and why."""

    name: Name
    reason: str

    def __str__(self) -> str:
        return f"rank {self.name.rank} (pid {self.name.pid}) {self.reason}"


def job(pid: int | None, seconds: float = SECONDS) -> tuple[list[Dump], list[Silence]]:
    """The dumps of one job, by rank, and who did not answer; `pid`, any rank's, chooses if several jobs run here.

    Raises ValueError, one sentence, if there is none or the choice is not clear.
    """
    return everyone(choose(listening(), pid), lambda name: ask(name, seconds))


def everyone(names: Sequence[Name], ask: Callable[[Name], T | Silence | None]) -> tuple[list[T], list[Silence]]:
    """What these ranks answer, all asked at once, and who did not. Raises ValueError if nobody did."""
    with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as pool:
        answers = [answer for answer in pool.map(ask, names) if answer is not None]
    silent = [answer for answer in answers if isinstance(answer, Silence)]
    answered = [answer for answer in answers if not isinstance(answer, Silence)]
    if not answered:
        raise ValueError("; ".join(map(str, silent)) or "the job has just ended")
    return answered, silent


def choose(names: Sequence[Name], pid: int | None) -> list[Name]:
    """The ranks of the only job, or of the one that process `pid` belongs to. ValueError says what else there is."""
    jobs: dict[int, list[Name]] = {}
    for name in sorted(names, key=lambda name: (name.rank, name.pid)):
        jobs.setdefault(name.job, []).append(name)
    if not jobs:
        raise ValueError(
            "no Paceline job of this user runs on this machine (ranks in a container are seen from inside)"
        )
    if pid is not None:
        for ranks in jobs.values():
            if any(name.pid == pid for name in ranks):
                return ranks
        raise ValueError(f"process {pid} is not one of the ranks that run here: {_pids(jobs)}")
    if len(jobs) > 1:
        raise ValueError(f"{len(jobs)} jobs run here, choose with --pid: {_pids(jobs)}")
    return next(iter(jobs.values()))


def listening() -> list[Name]:
    """The sockets of this user's ranks; for root those of all users."""
    names = []
    for line in Path("/proc/net/unix").read_text(errors="replace").splitlines()[1:]:
        fields = line.split(maxsplit=7)
        if len(fields) < 8 or not int(fields[3], 16) & _LISTENS:
            continue
        name = Name.parse(fields[7].removeprefix("@"))
        if name is not None and os.geteuid() in (name.uid, 0):
            names.append(name)
    return names


def ask(name: Name, seconds: float) -> Dump | Silence | None:
    """The trace of the rank with this socket, within `seconds`; None if it has ended meanwhile."""
    return question(name, "trace", decode, seconds, MAX_FILE_BYTES)


def question(name: Name, words: str, decode: Callable[[bytes], T], seconds: float, most: int) -> T | Silence | None:
    """What the rank with this socket answers within `seconds`, in `most` bytes; None if it has ended meanwhile.

    decode: raises ValueError, "not a …", for what can't be an answer.
    """
    deadline = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.settimeout(seconds)
            sock.connect(name.address)
            if user_of(sock) not in (name.uid, 0):
                return Silence(name, "is a process of another user that took its name")
            sock.sendall(f"{words}\n".encode("ascii"))
            (length,) = LENGTH.unpack(_receive(sock, LENGTH.size, deadline))
            if length > most:
                return Silence(name, f"offers {length} bytes, more than the answer can have")
            return decode(_receive(sock, length, deadline))
        except (TimeoutError, BlockingIOError):  # the second: too many wait for it already
            return Silence(
                name,
                f"did not answer within {seconds:g} s: it is stopped, or in code that lets no other thread run",
            )
        except (ConnectionError, EOFError):
            return None
        except ValueError as error:
            return Silence(name, f"sent something that is {error}")


def summary(dump: Dump) -> str:
    """One line: where this rank is."""
    where = f"; at {dump.line}" if dump.line else ""
    failure = f"; first failure: {dump.reason}" if dump.reason else ""
    return f"rank {dump.rank} (host {dump.host}, pid {dump.pid}): {_doing(dump)}{where}{failure}"


def _doing(dump: Dump) -> str:
    running = [event for event in dump.events if event.state == "running"]
    if running:
        behind = f", {len(running) - 1} more behind it" if len(running) > 1 else ""
        return f"{_named(running[0])} running for {_since(running[0].enqueue_ns, dump)}{behind}"
    if not dump.events:
        return "no operation yet"
    last = max(dump.events, key=lambda event: event.end_ns)
    return f"{_named(last)} {last.state} {_since(last.end_ns, dump)} ago"


def _named(event: Event) -> str:
    size = f" ({event.dtype}, {event.bytes} bytes)" if event.bytes else ""
    return f"{event.collective} #{event.sequence}{size}"


def _since(moment_ns: int, dump: Dump) -> str:
    return shown(max(0, dump.written_ns - moment_ns) / 1e9)


def _pids(jobs: Mapping[int, Sequence[Name]]) -> str:
    return "; ".join(", ".join(str(name.pid) for name in ranks) for ranks in jobs.values())


def _receive(sock: socket.socket, size: int, deadline: float) -> bytes:
    data = bytearray()
    while len(data) < size:
        sock.settimeout(max(0.001, deadline - time.monotonic()))
        part = sock.recv(min(size - len(data), 2**20))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
