"""One rank goes; what the others are told, how soon, and what is left behind.

`python tests/raw/trial.py 1000` runs as many trials of killed ranks and says how they ended.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from jobs import job, words

from paceline.trace.listener import Name

ARRANGEMENTS = ["00", "000", "01", "0011"]
NAMED_WITHIN = 5.0  # seconds


def leftovers() -> list[str]:
    """Segments and named sockets that a job of ours could have left; what living ranks listen on is none."""
    segments = [path.name for path in Path("/dev/shm").iterdir() if "paceline" in path.name]
    sockets = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "paceline" in line]
    return segments + [name for name in sockets if not _of_a_living_rank(name)]


def _of_a_living_rank(socket: str) -> bool:
    name = Name.parse(socket.removeprefix("@"))
    return name is not None and Path(f"/proc/{name.pid}").exists()


def trial(how: str, machines: str, seed: int, folder: Path, timeout: float = 30.0, chunk: int = 0) -> float:
    """Run one; returns the seconds from the victim's end to the last survivor's. Fails unless all were told right."""
    ranks = len(machines)
    with job(ranks, "victim.py", how, machines, str(seed), str(timeout), str(chunk), output=folder) as running:
        gone = _first_end(running, how, timeout)
        deadline = gone + NAMED_WITHIN + (timeout if how == "stop" else 0)
        survivors = [process for process in running.processes if process.poll() is None or process.returncode == 7]
        while any(process.poll() is None and not _stopped(process.pid) for process in survivors):
            assert time.monotonic() < deadline, f"survivors hang: {running.describe_running()}\n{words(folder)}"
            time.sleep(0.002)
        took = time.monotonic() - gone
        for process in running.processes:
            if _stopped(process.pid):
                process.send_signal(signal.SIGKILL)
    told = [json.loads(text) for path in sorted(folder.glob("*.out")) if (text := path.read_text())]
    assert len(told) == ranks - 1, words(folder)
    for report in told:
        kind = {"kill": "PeerLost", "leave": "PeerLost", "stop": "Timeout"}[how]
        assert report["kind"] == kind, report
        assert f"rank {report['victim']} (" in report["message"], report
    return took


def _first_end(running: object, how: str, timeout: float) -> float:
    start = time.monotonic()
    processes = running.processes  # type: ignore[attr-defined]
    while time.monotonic() - start < 60 + timeout:
        for process in processes:
            ended = process.poll()
            if ended is not None or (how == "stop" and _stopped(process.pid)):
                return time.monotonic()
        time.sleep(0.001)
    raise AssertionError("nobody went")


def _stopped(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    except OSError:
        return False


def main(trials: int) -> None:
    before, slowest, ends = set(leftovers()), 0.0, Counter[str]()
    for seed in range(trials):
        with tempfile.TemporaryDirectory() as name:
            try:
                slowest = max(slowest, trial("kill", ARRANGEMENTS[seed % 4], seed, Path(name)))
                ends["named"] += 1
            except AssertionError as error:
                ends["failed"] += 1
                print(f"trial {seed}: {error}", flush=True)
    left = set(leftovers()) - before
    print(f"{trials} trials: {dict(ends)}, slowest {slowest:.2f} s, left behind: {left or 'nothing'}")


if __name__ == "__main__":
    main(int(sys.argv[1]))
