"""A model that does not fit into a control group alone trains in partitions of which each has such a group."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline.formats.sizes import parse_bytes
from paceline.torch.compat import PIPELINES, torch_version

pytestmark = [
    pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old"),
    pytest.mark.long,  # five processes import torch, and two of them profile a model
    pytest.mark.timeout(580),
]

SCRIPT = Path(__file__).parents[2] / "scripts" / "hybrid_limited.py"
MIB = 1 << 20
KEYS = ("held", "before", "predicted", "read")


@pytest.mark.needs("a limit of memory")
def test_a_limited_model_trains_in_partitions(tmp_path: Path) -> None:
    file, limit = tmp_path / "rows.json", "400M"
    command = [sys.executable, str(SCRIPT), "--model", "ResNet-110", "--batch", "32", "--microbatches", "4"]
    done = subprocess.run(
        [*command, "--limit", limit, "--steps", "2", "--json", str(file)], capture_output=True, text=True, timeout=560
    )
    assert done.returncode == 0, done.stdout + done.stderr
    alone, parts = json.loads(file.read_text())
    assert alone["exit_code"] != 0
    assert alone["held"][0] >= 0.98 * parse_bytes(limit)  # it was killed there
    assert parts["exit_code"] == 0
    for held, before, predicted, read in zip(*(parts[key] for key in KEYS), strict=True):
        assert held <= parse_bytes(limit)
        assert -32 * MIB <= held - before - predicted <= 32 * MIB + max(0, read)
