"""The example trains."""

from __future__ import annotations

import re
from pathlib import Path

from launched import environment, finish, paceline_run

ROOT = Path(__file__).parents[3]


def test_the_example_trains() -> None:
    file = ROOT / "examples" / "jax_train.py"
    code, out, err = finish(paceline_run("-n", "2", "--direct", file, env=environment(PACELINE_TIMEOUT="60")), 200)
    assert code == 0, err
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", out)]
    assert len(losses) == 5
    assert losses[-1] < losses[0] / 10
