"""A rank that stays away from the ranks of another machine: they say where in its program it is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jobs import PROGRAMS
from on_lab import heard, ranks_on

from paceline.lab.lab import Lab
from paceline.topology import parse

ABSENT_RANK = PROGRAMS / "absent_rank.py"
TOPOLOGY = """
children:
  - {machine: alpha, ranks: 1, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 500 Mbit/s}
"""


@pytest.mark.needs("a lab")
def test_a_stall_tells_where_a_rank_of_another_machine_is(tmp_path: Path) -> None:
    settings = {"PACELINE_STALL_SECONDS": "0.6"}
    with (
        Lab(parse(TOPOLOGY)) as lab,
        ranks_on(lab, (0, 1), ABSENT_RANK, str(tmp_path), "blocking", **settings) as ranks,
    ):
        heard(ranks[1], "ready")
        (tmp_path / "stop").touch()
        assert ranks[0].stderr is not None
        # It may warn before the other one had a reason to say anything.
        line = next(line for line in ranks[0].stderr if " ago at " in line)
    program = ABSENT_RANK.read_text().splitlines()
    where = 1 + next(number for number, line in enumerate(program) if line.endswith("# async"))
    found = re.search(
        rf"missing rank 1 \(host beta, pid {ranks[1].pid}\), last heard of in all_reduce #\d+ float32\[4096\] AVG, "
        rf"(\S+) s ago at \S*absent_rank\.py:{where}; rank 0 \(host alpha, pid {ranks[0].pid}\) "
        r"waits at \S*absent_rank\.py",
        line,
    )
    assert found and float(found[1]) < 60, line
