"""Jobs that lose a rank: what the others are told, how soon, and that nothing of the job is left."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

from jobs import RAW, job, words

from paceline.launch.local import LocalJob
from paceline.observe.trace import live

NAMED_WITHIN = 5.0
"""Seconds."""
KINDS = {"kill": "PeerLost", "leave": "PeerLost", "stop": "Timeout"}
"""How a rank goes -> the error that the others raise."""


def lose_one(
    ranks: int,
    program: Path,
    how: str,
    *arguments: str,
    folder: Path,
    timeout: float,
    imports: tuple[str, ...] = RAW,
) -> tuple[float, list[dict[str, Any]]]:
    """Run `program how *arguments`, in which one rank goes and the others print what they were told, as JSON.

    Fails unless all of them were told in time that it was this rank. Returns the seconds from its end to the last
    survivor's, and what the survivors were told. timeout: the job's own, in seconds. imports: see `jobs.job`.
    """
    with job(ranks, program, how, *arguments, output=folder, imports=imports) as running:
        gone = _first_end(running, 60 + timeout)
        deadline = gone + NAMED_WITHIN + (timeout if how == "stop" else 0)
        while any(process.poll() is None and not _stopped(process.pid) for process in running.processes):
            assert time.monotonic() < deadline, f"survivors hang: {running.describe_running()}\n{words(folder)}"
            time.sleep(0.002)
        took = time.monotonic() - gone
        for process in running.processes:
            if _stopped(process.pid):
                process.send_signal(signal.SIGKILL)
    assert not (left := leftovers(running)), left
    told = [json.loads(text) for path in sorted(folder.glob("*.out")) if (text := path.read_text())]
    assert len(told) == ranks - 1, words(folder)
    for report in told:
        assert report["kind"] == KINDS[how], report
        assert f"rank {report['victim']} (" in report["message"], report
    return took, told


def leftovers(ended: LocalJob) -> list[str]:
    """Segments that any job could have left, and where ranks of this one still listen."""
    segments = [path.name for path in Path("/dev/shm").iterdir() if "paceline" in path.name]
    pids = {process.pid for process in ended.processes}
    return segments + [str(name) for name in live.listening() if name.pid in pids]


def _first_end(running: LocalJob, seconds: float) -> float:
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if any(process.poll() is not None or _stopped(process.pid) for process in running.processes):
            return time.monotonic()
        time.sleep(0.001)
    raise AssertionError("nobody went")


def _stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False
