"""`paceline bench simulate` predicts jobs from a run, runs them, and writes both."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from paceline_bench.simulate.measure import CASES, USUAL


@pytest.mark.verify
@pytest.mark.needs("a lab")
@pytest.mark.timeout(200)
def test_a_case_is_predicted_and_run(tmp_path: Path) -> None:
    place = tmp_path / "rows.json"
    words = ["bench", "simulate", "--cases", "2 ranks of one", "--steps", "4", "--rounds", "1", "--json", str(place)]
    done = subprocess.run([sys.executable, "-m", "paceline", *words], capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(place.read_text())
    assert (row["case"], row["wrong"]) == ("2 ranks of one machine", 0)
    assert row["low_ms"] <= row["predicted_ms"] <= row["high_ms"]
    assert row["error"] == pytest.approx(row["predicted_ms"] / row["measured_ms"] - 1, abs=1e-3)
    assert row["predicted_ms"] >= 150, "it computes for so long"
    assert "calibrated on 2+2 at 500 Mbit/s" in done.stdout


def test_all_cases_are_others_than_the_one_that_calibrates() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 10
    assert USUAL not in CASES
