"""A machine whose network is gone in the middle of all-reduces: the others name its ranks within the timeout."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jobs import PROGRAMS
from on_lab import ended, heard, ranks_on
from rank_loss import NAMED_WITHIN

from paceline.lab.lab import Lab
from paceline.topology import parse

PROGRAM = PROGRAMS / "cut_off.py"
TIMEOUT = 3.0
"""Seconds that a rank waits for others; what it takes to tell everybody comes on top."""
PLACES = (0, 1, 1, 2)
"""The machine of every rank."""
TOPOLOGY = """
children:
  - {machine: alpha, ranks: 1, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 2, uplink: 500 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 500 Mbit/s}
"""


@pytest.mark.needs("a lab")
def test_a_machine_that_disappears_is_named_by_the_others(tmp_path: Path) -> None:
    file = tmp_path / "three.yaml"
    file.write_text(TOPOLOGY)
    waits = {"PACELINE_TIMEOUT": str(TIMEOUT), "PACELINE_START_TIMEOUT": "60"}
    with Lab(parse(TOPOLOGY), file) as lab, ranks_on(lab, PLACES, PROGRAM, **waits) as ranks:
        for rank in ranks:
            heard(rank, "ready")
        lab.cut("gamma")
        outs, errs = ended(ranks, deadline=250)
    assert [rank.returncode for rank in ranks] == [7] * len(PLACES), errs
    told = [json.loads(out) for out in outs]
    assert all(report["kind"] in ("Timeout", "PeerLost") for report in told), told
    assert all(report["waited"] < TIMEOUT + NAMED_WITHIN for report in told), told
    for report in told[:3]:
        # Beside it there may be one who waits for it and whom the speaker waits for.
        waits = report["message"].partition("it waits for ")[2]
        assert re.search(
            r"rank 3 \(host gamma, pid \d+\), [\d.]+:\d+ to [\d.]+:\d+, nothing heard for [\d.]+ s", waits
        ), told
