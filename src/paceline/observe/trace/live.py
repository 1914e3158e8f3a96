"""Questions to the ranks that run on this machine, and their traces."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from paceline.formats.sizes import show_duration
from paceline.observe.trace.asking import Silence, question, questions
from paceline.observe.trace.command_line import command_line
from paceline.observe.trace.dump import MAX_FILE_BYTES, Dump, decode
from paceline.observe.trace.event import Event
from paceline.observe.trace.listener import Name

SECONDS = 5.0
"""Seconds that a rank may take to answer. All ranks are asked at once."""

T = TypeVar("T")

_NAMED = 4
"""Ranks of a job whose pids a message lists."""
_LISTENS = 0x10000  # __SO_ACCEPTCON in /proc/net/unix


def job(pid: int | None, seconds: float = SECONDS) -> tuple[list[Dump], list[Silence]]:
    """Return the dumps of one job, ordered by rank, and the ranks that did not answer.

    pid: the process of any rank, to choose the job if several run here. seconds: the time that the ranks have to
    answer.

    Raises ValueError with one sentence if there is no job or the choice is ambiguous.
    """
    dumps, silent = ask_all(choose(listening(), pid), "trace", decode, seconds, MAX_FILE_BYTES)
    return list(dumps.values()), silent


def ask_all(
    names: Sequence[Name], words: str, decode: Callable[[bytes], T], seconds: float, max_bytes: int
) -> tuple[dict[Name, T], list[Silence]]:
    """Ask all these ranks at once, and return the answers and the ranks that did not answer.

    The arguments are those of `questions`. Raises ValueError if no rank answered.
    """
    found: dict[Name, T] = {}
    silent: list[Silence] = []
    for name, answer in zip(names, questions(names, words, decode, seconds, max_bytes), strict=True):
        if isinstance(answer, Silence):
            silent.append(answer)
        elif answer is not None:
            found[name] = answer
    if not found:
        raise ValueError("; ".join(map(str, silent)) or "the job has just ended")
    return found, silent


def choose(names: Sequence[Name], pid: int | None) -> list[Name]:
    """Return the ranks of the only job, or of the job that process `pid` belongs to.

    Raises ValueError, with the pids and the command lines of the jobs that run here, if there is none or several.
    """
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
        raise ValueError(f"process {pid} is not one of the ranks that run here: {_processes(jobs)}")
    if len(jobs) > 1:
        raise ValueError(f"{len(jobs)} jobs run here, choose with --pid: {_processes(jobs)}")
    return next(iter(jobs.values()))


def listening() -> list[Name]:
    """Return the names of the sockets of this user's ranks; for root, those of all users."""
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
    """Return the trace of the rank with this socket, a Silence if it does not answer in time, None if it has ended."""
    return question(name, "trace", decode, seconds, MAX_FILE_BYTES)


def summary(dump: Dump) -> str:
    """Return one line that says what this rank is doing and where."""
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
    return show_duration(max(0, dump.written_ns - moment_ns) / 1e9)


def _processes(jobs: Mapping[int, Sequence[Name]]) -> str:
    """The pids of each job's ranks, and what they were started with."""
    return "; ".join(", ".join(_started(ranks)) for ranks in jobs.values())


def _started(ranks: Sequence[Name]) -> Iterator[str]:
    for line, some in groupby(ranks, key=lambda name: command_line(name.pid)):
        alike = list(some)
        pids = ", ".join(str(name.pid) for name in alike[:_NAMED])
        if len(alike) > _NAMED:
            pids += f" and {len(alike) - _NAMED} more"
        yield f"{pids} ({line})" if line else pids
