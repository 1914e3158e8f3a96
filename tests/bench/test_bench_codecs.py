"""The benchmark of the codecs: what it covers, what it finds wrong, and its rows through the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from commands import paceline

from paceline.group import codecs
from paceline_bench.codecs import measure
from paceline_bench.codecs.weights import trained

SIZE = 16384
"""Bytes of elements."""


@pytest.fixture(scope="module")
def weights() -> np.ndarray:
    return trained(steps=3)


def test_every_codec_is_covered_with_every_dtype_that_it_takes():
    assert {codec for codec, _ in measure.every_case()} == set(codecs.CODECS)
    assert ("lossless", "bfloat16") in measure.every_case()
    assert ("int8", "bfloat16") not in measure.every_case()


def test_right_results_pass_and_a_planted_error_is_counted(weights, monkeypatch):
    assert [row.wrong for row in measure.measure(SIZE, "cache", weights, 3, print)] == [0] * len(measure.every_case())
    decode = codecs.decode

    def planted(*args, **more):
        found = decode(*args, **more)
        found[7] = 0x4000
        return found

    monkeypatch.setattr(codecs, "decode", planted)
    assert [row.wrong for row in measure.measure(SIZE, "cache", weights, 3, print)] == [1] * len(measure.every_case())


def test_training_changes_every_layer(weights):
    first = trained(steps=0)
    assert first.size == weights.size
    assert np.isfinite(weights).all()
    assert np.mean(first != weights) > 0.5


def test_rows_of_both_sizes_through_the_command_line(weights, tmp_path, monkeypatch):
    monkeypatch.setattr("paceline_bench.codecs.command.trained", lambda: weights)
    monkeypatch.setattr(measure, "_BURST_BYTES", 1 << 18)
    file = tmp_path / "rows.json"
    code, out, err = paceline("bench", "codecs", "--cached", "16K", "--large", "64K", "--rounds", 3, "--json", file)
    assert code == 0, err
    rows = json.loads(file.read_text())
    half = len(rows) // 2
    assert [(row["bytes"], row["buffer"]) for row in rows[::half]] == [(16384, "cache"), (65536, "memory")]
    assert [(row["codec"], row["dtype"]) for row in rows] == 2 * measure.every_case()
    for row in rows:
        assert row["wrong"] == 0
        assert min(row["encode_gbps"], row["decode_gbps"], row["memcpy_gbps"]) > 0
        assert (row["max_relative_error"] == 0) == (row["codec"] in ("none", "lossless"))
    halves = [row for row in rows if (row["codec"], row["dtype"]) == ("lossless", "bfloat16")]
    assert all(row["ratio"] < 0.7 for row in halves)
    assert len(out.splitlines()) == 1 + len(rows)
