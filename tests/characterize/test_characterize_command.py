"""`paceline characterize` with real ranks: it is interrupted, and continues."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

DEADLINE = 200.0
"""Seconds."""


def command(*words: object) -> list[str]:
    more = ["--models", "MobileNet", "--image-size", "32", "--rounds", "3", "--steps", "1"]
    return [sys.executable, "-m", "paceline", "characterize", *more, *map(str, words)]


@pytest.mark.long  # the ranks of three approaches import torch twice
@pytest.mark.timeout(2 * DEADLINE)
def test_an_interrupted_characterisation_goes_on(tmp_path: Path) -> None:
    kept, rows_file, page_file = tmp_path / "kept.jsonl", tmp_path / "rows.json", tmp_path / "page.html"
    words = ["--approaches", "baidu-ring,gloo,paceline", "--batches", "2,4", "--results", kept]
    with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True) as first:
        deadline = time.monotonic() + DEADLINE
        while not (kept.exists() and kept.read_bytes().count(b"\n") == 4):
            assert first.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        first.send_signal(signal.SIGINT)
        _, err = first.communicate(timeout=150)
    assert first.returncode == 130, err
    before = kept.read_text()

    words = [*words, "--at-once", "2", "--json", rows_file, "--html", page_file]
    done = subprocess.run(command(*words), capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
    assert kept.read_text().startswith(before)
    rows = json.loads(rows_file.read_text())
    every = {"none-torch", "baidu-ring", "gloo", "paceline"}
    assert sorted((row["batch"], row["approach"]) for row in rows) == sorted((b, a) for b in (2, 4) for a in every)
    for row in rows:
        assert row["wrong"] == 0 and row["steps"] == 3 and row["gradient_bytes"] == 14_019_488
        assert row["images_per_s"] == pytest.approx(2e3 * row["batch"] / row["step_ms"], rel=0.01)
        assert row["waiting_ms"] >= 0 and row["negotiation_ms"] is None
    told = page_file.read_text()
    assert all(f">{row['approach']}</th>" in told and f">{row['images_per_s']:.1f}</td>" in told for row in rows)
