"""A link that becomes slower while ranks use it: they find out, agree, measure and plan again; no result is wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from paceline.lab.lab import Lab
from paceline.topology import Link, read

PROGRAM = Path(__file__).with_name("on_a_changing_link.py")
BEFORE, AFTER = 4, 44
SLOW = Link(20e6, 20e6)  # 160 Mbit/s
TOPOLOGY = """
name: three
children:
  - {machine: alpha, ranks: 1, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 500 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 500 Mbit/s}
"""
NEWS = re.compile(r"plans made again: .*beta ([0-9.]+) Mbit/s(?: up / ([0-9.]+) Mbit/s down)?")

pytestmark = pytest.mark.timeout(180)


@pytest.mark.requires_root_network
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_plans_follow_a_link_that_became_slower(collective: str, tmp_path: Path) -> None:
    file = tmp_path / "three.yaml"
    file.write_text(TOPOLOGY)
    with Lab(read(file), file) as lab, ExitStack() as stack:
        ranks = [
            stack.enter_context(
                subprocess.Popen(
                    [*lab.exec(machine), sys.executable, str(PROGRAM), collective, str(BEFORE), str(AFTER)],
                    env={**os.environ, **lab.environment(machine), **_rank(lab, machine)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for machine in range(3)
        ]
        for rank in ranks:
            stack.callback(rank.kill)
        first = ranks[0]
        assert first.stdout is not None
        assert first.stdout.readline() == "ready\n"
        lab.change("beta", SLOW)
        said = [rank.communicate("go\n", timeout=150)[1] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0, 0], said
    found = NEWS.findall(said[0])
    assert found, said[0]
    up, down = (float(speed or found[-1][0]) for speed in found[-1])
    # Slower than it was by far; how exactly it is found depends on what else the machine does.
    assert up < 250 and down < 250, said[0]
    assert not NEWS.search(said[1] + said[2]), "one rank speaks for all"


def _rank(lab: Lab, machine: int) -> dict[str, str]:
    return {
        "RANK": str(machine),
        "WORLD_SIZE": "3",
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "MASTER_ADDR": lab.machines[0].address,
        "MASTER_PORT": "29500",
    }
