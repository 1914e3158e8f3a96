"""The script that says how exactly partitions train as the whole model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.torch.compat import PIPELINES, torch_version

pytestmark = [
    pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old"),
    pytest.mark.long,  # two ranks train two models for 60 steps
    pytest.mark.timeout(580),
]

SCRIPT = Path(__file__).parents[2] / "scripts" / "hybrid_exactness.py"


def test_loss_curves_lie_on_each_other(tmp_path: Path) -> None:
    """In float64, also where the gradients of a weight that partitions share are added up in another order."""
    file, steps = tmp_path / "rows.json", 60
    options = ["--models", "small transformer,two towers", "--shapes", "2x1", "--schedules", "1F1B"]
    options += [
        "--dtypes",
        "float64",
        "--batch",
        "4",
        "--microbatches",
        "4",
        "--steps",
        str(steps),
        "--json",
        str(file),
    ]
    done = subprocess.run([sys.executable, str(SCRIPT), *options], capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = json.loads(file.read_text())
    assert [row["model"] for row in rows] == ["small transformer", "two towers"]
    for row in rows:
        assert len(row["losses"]) == len(row["serial"]) == steps
        assert row["losses"][-1] < row["losses"][0]
        assert row["gradients"] <= 1e-12
        assert row["loss"] <= 1e-9  # rounding grows from step to step
