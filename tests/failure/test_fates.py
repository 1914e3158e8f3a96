"""What befalls a rank is told alike to every rank that waits for it, however they wait."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from jobs import PROGRAMS, job, words

DEADLINE = 150.0
"""Seconds."""
LEFT = "{it} has left the job; last heard of in "
TOLD = {
    # What befalls it, and how they wait -> the error, and what it says of the rank. "named": each rank of a coordinator
    # goes on without one that has left until it needs it, and so the coordinator says it.
    ("killed", "message"): ("PeerLost", "{it} died"),
    ("killed", "collective"): ("PeerLost", "{it} died"),
    ("killed", "named"): ("PeerLost", "{it} died"),
    ("leaves", "message"): ("PeerLost", LEFT),
    ("leaves", "collective"): ("PeerLost", LEFT),
    ("leaves", "named"): ("Aborted", "{it} has closed its coordinator, or has left"),
    ("stopped", "message"): ("Timeout", " waits for {it}"),
    ("stopped", "collective"): ("Timeout", " waits for {it}"),
    ("stopped", "named"): ("Timeout", " waits for {it}"),
}


@pytest.mark.parametrize("case", TOLD, ids=" ".join)
def test_what_befalls_a_rank_is_told_alike_on_every_rank(case: tuple[str, str], tmp_path: Path) -> None:
    fate, way = case
    outs = [tmp_path / f"rank-{rank}.out" for rank in range(2)]
    with job(3, PROGRAMS / "fates.py", "001", way, fate, output=tmp_path) as running:
        end = time.monotonic() + DEADLINE
        while not all(out.exists() and out.read_text().endswith("\n") for out in outs):
            assert time.monotonic() < end, words(tmp_path)
            time.sleep(0.01)
        pid = running.processes[2].pid
        for process in running.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
    kind, says = TOLD[case]
    for out in outs:
        error = json.loads(out.read_text())
        assert (error["kind"], error["rank"], error["pid"]) == (kind, 2, pid), error
        assert says.format(it=f"rank 2 (host {error['host']}, pid {pid})") in error["message"]
