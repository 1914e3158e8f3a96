"""The benchmark of the kernels: what it covers, what it finds wrong, and its rows through the command line."""

from __future__ import annotations

import json

import pytest
from commands import paceline

from paceline import _engine
from paceline_bench.kernels import measure
from paceline_bench.kernels.measure import Kernel, Operands, every_kernel


def test_every_dtype_and_every_reduction_is_covered():
    kernels = every_kernel()
    assert {kernel.dtype for kernel in kernels} == set(_engine.DTYPES)
    assert {kernel.op.upper() for kernel in kernels} == set(_engine.OPS) - {"PREMUL_SUM"}
    assert Kernel("float32", "bxor") not in kernels
    assert Kernel("bool", "avg") not in kernels


@pytest.mark.parametrize("kernel", every_kernel(), ids=lambda kernel: f"{kernel.dtype}-{kernel.op}")
def test_the_right_result_passes_and_one_planted_error_is_counted(kernel, monkeypatch):
    operands = Operands(40_000)
    assert operands.count_wrong(kernel) == 0
    reduce = measure.instruments.time_reduce

    def planted(dtype, op, divisor, out, *rest):
        time = reduce(dtype, op, divisor, out, *rest)
        operands.out[-1] ^= 0x11
        return time

    monkeypatch.setattr(measure.instruments, "time_reduce", planted)
    assert operands.count_wrong(kernel) == 1


def test_rows_of_both_sizes_through_the_command_line(tmp_path):
    file = tmp_path / "rows.json"
    code, out, err = paceline("bench", "reductions", "--cached", "4K", "--large", "256K", "--rounds", 3, "--json", file)
    assert code == 0, err
    rows = json.loads(file.read_text())
    assert [(row["bytes"], row["buffer"]) for row in rows[:: len(rows) // 2]] == [(4096, "cache"), (262144, "memory")]
    assert len(rows) == 2 * len(every_kernel())
    for row in rows:
        assert row["wrong"] == 0
        assert 0 < row["time_us_q1"] <= row["time_us"] <= row["time_us_q3"]
        assert row["algbw_gbps"] == pytest.approx(3 * row["bytes"] / row["time_us"] / 1e3, rel=0.01, abs=1e-3)
        assert row["to_add"] > 0
    assert len(out.splitlines()) == 1 + len(every_kernel())
