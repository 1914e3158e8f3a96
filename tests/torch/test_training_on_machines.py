"""Training on machines with different numbers of ranks and different links, in a lab."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import TORCH
from on_lab import run_on, warm_on

from paceline.lab.lab import Lab
from paceline.topology import parse

PROGRAM = Path(__file__).with_name("trained_on_machines.py")
ENCODED = Path(__file__).with_name("sharded_encoded.py")
TOPOLOGY = """
children:
  - {machine: alpha, ranks: 2, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 1, uplink: {up: 200 Mbit/s, down: 500 Mbit/s}}
"""
PLACES = (0, 0, 1)


@pytest.mark.verify
@pytest.mark.needs("a lab")
def test_training_on_two_machines(tmp_path: Path) -> None:
    """DDP and FSDP2 equal one process; then a sharded optimizer, the parameters of which are encoded."""
    with Lab(parse(TOPOLOGY)) as lab, warm_on(lab, TORCH) as warm:
        for program in (PROGRAM, ENCODED):
            run_on(lab, warm, PLACES, program, output=tmp_path / program.stem, OMP_NUM_THREADS="1")
