"""Ray Train runs DDP over Paceline, whose name torch finds by itself, and a function that was written for Horovod."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile

import pytest
from launched import ROOT, environment, finish

from paceline.errors import ConfigurationError
from paceline.horovod.ray import HorovodConfig


@pytest.mark.timeout(450)
def test_ray_train_runs_both_of_its_trainers() -> None:
    seconds = {"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "200"}
    # The names of Ray's sockets are long, and so the folder's must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        started = subprocess.Popen(
            [sys.executable, str(ROOT / "examples" / "train_ray.py")],
            env=environment(RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=folder, **seconds),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        code, out, err = finish(started, 400)
    assert code == 0, err
    losses = re.findall(r"loss ([\d.]+), then ([\d.]+)", out)
    assert [line.split(":")[0] for line in out.splitlines()] == ["2 ranks over paceline", "2 ranks of Horovod's API"], (
        out
    )
    assert all(float(last) < float(first) / 4 for first, last in losses)


def test_a_configuration_that_makes_no_sense_is_refused_before_ray_starts_anything() -> None:
    with pytest.raises(ConfigurationError, match="PACELINE_START_TIMEOUT"):
        HorovodConfig(timeout_s=-1)
    assert "very secret" not in repr(HorovodConfig(key="very secret indeed, and long"))
