"""Training on machines with different numbers of ranks and different links, in a lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from on_lab import ended, ranks_on

from paceline.lab.lab import Lab
from paceline.topology import parse

PROGRAM = Path(__file__).with_name("trained_on_machines.py")
ENCODED = Path(__file__).with_name("sharded_encoded.py")
TOPOLOGY = """
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 1, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}}
"""


@pytest.mark.requires_root_network
def test_ddp_and_fsdp2_equal_one_process() -> None:
    with Lab(parse(TOPOLOGY)) as lab, ranks_on(lab, (0, 0, 1), PROGRAM, OMP_NUM_THREADS="1") as ranks:
        _, said = ended(ranks, deadline=200)
    assert [rank.returncode for rank in ranks] == [0, 0, 0], "\n".join(said)


@pytest.mark.requires_root_network
def test_a_sharded_optimizer_whose_parameters_are_encoded() -> None:
    with Lab(parse(TOPOLOGY)) as lab, ranks_on(lab, (0, 0, 1), ENCODED, OMP_NUM_THREADS="1") as ranks:
        _, said = ended(ranks, deadline=200)
    assert [rank.returncode for rank in ranks] == [0, 0, 0], "\n".join(said)
