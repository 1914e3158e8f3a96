"""Models in partitions as a benchmark: shapes, checked gradients, memory that is seen, and the command's rows."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import socket

import pytest
from benched import bench

torch = pytest.importorskip("torch")

from torch.utils._pytree import tree_map  # noqa: E402

from paceline.torch.compat import PIPELINES, torch_version  # noqa: E402
from paceline_bench.hybrid import measure  # noqa: E402
from paceline_bench.ranks import partitioned, peak_memory  # noqa: E402
from paceline_bench.ranks.partitioned_tasks import TASKS  # noqa: E402

KEYS = (
    "model partitions replicas microbatches schedule step_ms predicted_ms peak_bytes predicted_bytes max_gradient_error"
)
pipelines = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")


def test_shapes_are_read():
    assert measure.shapes("auto,2x1x8,1x2x1,auto", 2, 16) == ["auto", "2x1x8", "1x2x1"]
    assert measure.shapes("all", 2, 16) == [*(f"1x2x{1 << k}" for k in range(4)), *(f"2x1x{2 << k}" for k in range(4))]
    for wrong in ("2x1", "2x2x4", "1x2x9", "2x1x0", "2x1xm", ""):
        with pytest.raises(ValueError, match="is no shape of 2 ranks and 16 samples"):
            measure.shapes(wrong, 2, 16)


@pytest.mark.parametrize("name", sorted(TASKS.keys() - {"ResNet-1001"}))
def test_models_take_their_data(name):
    task = TASKS[name]
    inputs, targets = task.data(2)
    with torch.device("meta"):
        model = task.new()
    inputs, targets = tree_map(lambda one: one.to("meta"), (inputs, targets))
    assert task.loss_of(model, inputs, targets).shape == ()


@pytest.mark.parametrize(("name", "millions"), [("ResNet-110", 1.7), ("ResNet-1001", 10.2), ("VGG16", 8.4)])
def test_models_have_the_weights_that_are_known(name, millions):
    with torch.device("meta"):
        weights = sum(parameter.numel() for parameter in TASKS[name].new().parameters())
    assert weights == pytest.approx(1e6 * millions, rel=0.02)


@pytest.mark.parametrize("method", ["serial", "ddp", pytest.param("hybrid", marks=pipelines)])
def test_wrong_gradients_and_memory_are_seen(method, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    threads = torch.get_num_threads()
    shape = {"partitions": "1", "replicas": "1", "microbatches": "2", "schedule": "1F1B"}
    shape |= {"memory": "", "activations": "recompute"}
    one = partitioned.Partitioned({"model": "VGG16", "method": method, "batch": "4", **shape}, timeout=60)
    try:
        built = one.do_build()
        weights = 4 * sum(parameter.numel() for parameter in TASKS["VGG16"].new().parameters())
        assert built["peak"] > 3 * weights  # themselves, gradients and Adam's two states, of which some may be reused
        assert one.do_check()["worst"] <= 1e-6
        _, last = list(one._trained.parameters())[-1]
        last.register_hook(lambda gradient: 2 * gradient)
        assert one.do_check()["worst"] == pytest.approx(1)
        assert one.do_train(1)["seconds"] > 0
    finally:
        one.close()
        torch.set_num_threads(threads)


def arena(pages: int) -> mmap.mmap:
    """Memory that looks like an arena, of which so many pages are in use."""
    descriptor = os.memfd_create("paceline-arena")
    os.ftruncate(descriptor, 64 * mmap.PAGESIZE)
    found = mmap.mmap(descriptor, 64 * mmap.PAGESIZE)
    os.close(descriptor)
    for page in range(pages):
        found[page * mmap.PAGESIZE] = 1
    return found


def test_what_lies_in_other_arenas_is_told_apart():
    with arena(5) as mine, arena(7), arena(11):
        begin = ctypes.c_char.from_buffer(mine)
        own = ctypes.addressof(begin)
        del begin
        before = peak_memory.of_others(own)
        assert before >= 18 * mmap.PAGESIZE
        with arena(13):
            assert peak_memory.of_others(own) == before + 13 * mmap.PAGESIZE


def test_the_peak_is_that_of_a_moment():
    before = peak_memory.settled()
    some = torch.ones(16 << 20)  # 64 MiB
    del some
    assert peak_memory.peak() - before >= 60 << 20
    assert peak_memory.settled() - before < 32 << 20
    assert peak_memory.peak() - before < 32 << 20


@pipelines
@pytest.mark.long  # six ranks import torch
@pytest.mark.timeout(300)
def test_rows_through_the_command_line(tmp_path):
    file = tmp_path / "rows.json"
    options = ("--models", "VGG16", "--batch", 4, "--shapes", "2x1x2,1x2x1", "--rounds", 3, "--steps", 1)
    done = bench("hybrid", *options, "--json", file, seconds=280)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [row["system"] for row in rows] == ["serial", "ddp", "hybrid", "hybrid"]
    for row in rows:
        assert set(KEYS.split()) <= row.keys()
        assert row["max_gradient_error"] <= 1e-5
        assert row["peak_bytes"] > 0
    assert [(row["partitions"], row["replicas"]) for row in rows[2:]] == [(2, 1), (1, 2)]
    assert all(row["predicted_ms"] > 0 and row["predicted_bytes"] > 0 for row in rows[2:])
