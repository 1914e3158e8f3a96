"""`paceline bench loading`: the arithmetic of its rows, and that ranks get all images either way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benched import bench, refused

from paceline_bench.loading.measure import METHODS, Rounds, rows


def test_rates_are_compared_round_by_round() -> None:
    shared = Rounds("shared", wall=[0.5, 0.25, 1.0], cpu=[1e-3, 2e-3, 4e-3])
    own = Rounds("own", wall=[1.0, 0.5, 4.0], cpu=[2e-3, 2e-3, 4e-3])
    mine, its = rows([shared, own], ranks=4, workers=8, pixels=64)
    assert (mine.method, mine.ranks, mine.workers, mine.pixels) == ("shared", 4, 8, 64)
    assert (mine.images_per_second, mine.images_per_second_q1, mine.images_per_second_q3) == (2, 1.5, 3)
    assert (mine.cpu_us, mine.to_own, mine.cpu_to_own) == (2000, 2, 1)
    assert (its.to_own, its.cpu_to_own) == (1, 1)


@pytest.mark.long  # four ranks import torch
def test_rows_through_the_command_line(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "rows.json"
    done = bench("loading", "-n", 2, "--batch", 2, "--batches", 3, "--rounds", 3, "--json", file)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_text())
    assert [one["method"] for one in found] == list(METHODS)
    assert all(one["images_per_second"] > 0 and one["cpu_us"] > 0 for one in found)
    assert found[1]["to_own"] == found[1]["cpu_to_own"] == 1


def test_images_have_whole_blocks() -> None:
    assert "100 is not a multiple of 8" in refused("loading", "--pixels", 100)
