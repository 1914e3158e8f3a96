"""What is concluded from rounds in which machines' own links were measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jobs import run

from paceline.adapt.measure.uplinks import spread

BEGINS = """
import os, sys
os.environ["PACELINE_MACHINE"] = os.environ["RANK"]
import paceline
paceline.init().close()
assert "numpy.ma" not in sys.modules
"""


@pytest.mark.parametrize(
    ("rates", "factor"),
    [
        ([[4.0, 6.0, np.nan], [2.0, np.nan, 5.0], [2.0, 2.0, 5.0]], 2.0),
        ([[4.0, 6.0, 0.0], [2.0, 0.0, 5.0]], 2.0),  # nothing arrived in a round
        ([[0.0], [3.0]], np.inf),
    ],
)
def test_the_spread_is_that_of_the_usual_pair(rates: list[list[float]], factor: float) -> None:
    with np.errstate(all="raise"):
        assert spread(np.array(rates)) == factor


def test_ranks_of_two_machines_begin_without_masked_arrays(tmp_path: Path) -> None:
    """Importing them takes longer than all measurements, on every rank of a job."""
    program, output = tmp_path / "program.py", tmp_path / "output"
    program.write_text(BEGINS)
    output.mkdir()
    run(2, program, output=output)
