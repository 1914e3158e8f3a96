"""TensorFlow's approaches in `paceline characterize`: the models, the servers' shares, and steps of real ranks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("tensorflow")
pytest.importorskip("torch")

from paceline_bench.ranks.approaches.tf_models import initial
from paceline_bench.ranks.approaches.tf_server import shares
from paceline_bench.ranks.approaches.torch_ddp import network


@pytest.mark.parametrize("model", ["ResNet-50", "MobileNet"])
def test_the_models_have_the_weights_of_torch_s(model: str) -> None:
    here = sorted(weight.size for weight in initial(model))
    assert here == sorted(weight.numel() for weight in network(model).parameters())


@given(sizes=st.lists(st.integers(1, 1000), min_size=1), servers=st.integers(1, 8))
def test_no_server_holds_more_than_an_equal_share_and_one_tensor(sizes: list[int], servers: int) -> None:
    owners = shares(sizes, servers)
    held = [sum(size for size, owner in zip(sizes, owners, strict=True) if owner == one) for one in range(servers)]
    assert sum(held) == sum(sizes)
    assert max(held) <= sum(sizes) / servers + max(sizes)


@pytest.mark.timeout(280)
def test_steps_of_all_approaches_are_right(tmp_path: Path) -> None:
    file, every = tmp_path / "rows.json", {"grpc", "grpc-x", "grpc-ring", "paceline-tensorflow"}
    words = ["--models", "MobileNet", "--image-size", "32", "--batches", "2", "--rounds", "3", "--steps", "1"]
    words += ["--approaches", ",".join(every), "--json", str(file)]
    command = [sys.executable, "-m", "paceline", "characterize", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=270)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert {row["approach"] for row in rows} == {"none-tensorflow", *every}
    assert all(row["wrong"] == 0 and row["gradient_bytes"] == 14_019_488 for row in rows)
