"""Training through DDP as a benchmark: gradients are checked, and the rows of the command."""

from __future__ import annotations

import json
import socket

import pytest
from benched import bench

torch = pytest.importorskip("torch")

from paceline_bench.ddp import measure  # noqa: E402
from paceline_bench.ranks import training  # noqa: E402


def test_the_network_is_the_same_each_time():
    network = training.network()
    assert network(torch.zeros(2, 3, 64, 64)).shape == (2, 1000)
    same = zip(network.parameters(), training.network().parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in same)


@pytest.mark.parametrize("method", ["alone", "silent"])
def test_wrong_gradients_are_counted(method, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    threads = torch.get_num_threads()
    one = training.Training({"method": method, "batch": "2", "pixels": "32"}, timeout=60)
    try:
        assert one.do_check() == {"wrong": 0, "bytes": 4 * 11_689_512}
        one._parameters[-1].register_hook(lambda gradient: 2 * gradient)
        assert one.do_check()["wrong"] == 1
    finally:
        one.close()
        torch.set_num_threads(threads)


def test_rates_are_compared_round_by_round():
    class Session:
        def __init__(self, method):
            self.system, self.ranks = measure.system(method, 16), 2

    times = {"alone": [1.0, 2.0, 4.0], "silent": [1.0, 4.0, 8.0], "gloo": [2.0, 5.0, 8.0]}
    found = [measure.Rates(Session(method), 1000, 0, spent, spent) for method, spent in times.items()]
    rows = measure.rows(found, batch=16, steps=3)
    assert [row.to_alone for row in rows] == [1.0, 0.5, 0.5]
    assert [row.to_silent for row in rows] == [2.0, 1.0, 0.8]
    assert [row.exposed_us for row in rows] == [-2e6, 0.0, 1e6]
    assert rows[0].images_per_second == 16.0
    assert rows[0].iterations == 9


@pytest.mark.long  # twelve ranks import torch
@pytest.mark.timeout(300)
def test_rows_through_the_command_line(tmp_path):
    file = tmp_path / "rows.json"
    some = ["gloo", "compress_int8", "sharded_optimizer", "fsdp_paceline"]
    wanted = ["--methods", ",".join(some)]
    done = bench("ddp", *wanted, "--batch", 1, "--rounds", 3, "--steps", 1, "--json", file, seconds=280)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [row["system"] for row in rows] == ["alone", "silent", *some]
    assert list(measure.METHODS) == list(training.METHODS)
    for row in rows:
        assert row["wrong"] == 0
        assert row["bytes"] == 4 * 11_689_512
        assert row["images_per_second"] == pytest.approx(2e6 / row["time_us"], rel=0.01)
        assert row["to_silent"] > 0
