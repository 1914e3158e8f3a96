"""A job that waits for its network says so once, without any setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_lab import ended, ranks_on

from paceline.lab.lab import Lab
from paceline.topology import parse

PROGRAM = Path(__file__).parents[1] / "programs" / "heard_verdict.py"
TWO = """
children:
  - {machine: alpha, ranks: 1, uplink: 100 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 100 Mbit/s}
"""


@pytest.mark.needs("a lab")
@pytest.mark.timeout(300)
def test_rank_0_says_once_that_the_job_waits_for_the_network() -> None:
    with Lab(parse(TWO)) as lab, ranks_on(lab, (0, 1), PROGRAM) as ranks:
        out, err = ended(ranks)
    assert [rank.returncode for rank in ranks] == [0, 0], err
    (line,) = out[0].splitlines()
    assert line.startswith("communication-bound: ") and "waits for other ranks or the link of " in line
    assert out[1].split() == []
