"""A machine whose network is gone in the middle of all-reduces: the others name its ranks within the timeout."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
from losing import NAMED_WITHIN

from paceline.lab.lab import Lab
from paceline.topology import parse

PROGRAM = Path(__file__).with_name("cut_off.py")
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


@pytest.mark.requires_root_network
@pytest.mark.timeout(60)
def test_a_machine_that_disappears_is_named_by_the_others(tmp_path: Path) -> None:
    file = tmp_path / "three.yaml"
    file.write_text(TOPOLOGY)
    with Lab(parse(TOPOLOGY), file) as lab, ExitStack() as stack:
        ranks = [
            stack.enter_context(
                subprocess.Popen(
                    [*lab.exec(machine), sys.executable, str(PROGRAM)],
                    env={
                        **os.environ,
                        **lab.environment(machine),
                        "RANK": str(rank),
                        "WORLD_SIZE": str(len(PLACES)),
                        "MASTER_ADDR": lab.machines[0].address,
                        "MASTER_PORT": "28541",
                        "PACELINE_TIMEOUT": str(TIMEOUT),
                        "PACELINE_START_TIMEOUT": "60",
                    },
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for rank, machine in enumerate(PLACES)
        ]
        for process in ranks:
            stack.callback(process.kill)
        for process in ranks:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        lab.cut("gamma")
        said = [process.communicate(timeout=40) for process in ranks]
    assert [process.returncode for process in ranks] == [7] * len(PLACES), said
    told = [json.loads(out) for out, _ in said]
    assert all(report["kind"] in ("Timeout", "PeerLost") for report in told), told
    assert all(report["waited"] < TIMEOUT + NAMED_WITHIN for report in told), told
    for report in told[:3]:
        # Beside it there may be one who waits for it and whom the speaker waits for.
        assert "rank 3 (host gamma, pid " in report["message"].partition("it waits for ")[2], told
