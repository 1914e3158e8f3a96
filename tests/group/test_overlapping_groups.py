"""A rank dies and another one leaves or dies because of it: who waits for that one is told of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jobs import PROGRAMS, job, words

PROGRAM = PROGRAMS / "overlapping.py"
DEADLINE = 150.0
"""Seconds."""


@pytest.mark.parametrize("how", ["leaves", "dies"])
@pytest.mark.parametrize("machines", ["000", "012"])
def test_who_has_gone_and_why_is_told(how: str, machines: str, tmp_path: Path) -> None:
    with job(3, PROGRAM, how, machines, output=tmp_path) as running:
        pids = [process.pid for process in running.processes]
        for process in running.processes:
            process.wait(DEADLINE)
    told = json.loads((tmp_path / "rank-0.out").read_text() or words(tmp_path))
    assert told["kind"] == "PeerLost"
    victim, survivor = (f"rank {rank} (host {told['host']}, pid {pids[rank]})" for rank in (2, 1))
    # One that leaves says why; of one that dies nobody knows more than that, and it is the member.
    blamed, first, then = (2, victim, f"; after that {survivor} ") if how == "leaves" else (1, survivor, victim)
    assert told["message"].startswith(f"{told['operation']} failed: {first} died")
    assert then in told["message"]
    assert (told["rank"], told["pid"], told["group"]) == (blamed, pids[blamed], [0, 1])
    assert (told["operation"], told["tensor"]) == ("all_reduce #0 float32[1000] SUM", None)
