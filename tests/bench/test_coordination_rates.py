"""Policies beside each other as a benchmark: sums are checked, and the rows of the command."""

from __future__ import annotations

import json
import socket

import numpy as np
import pytest
from benched import bench, refused

from paceline.cpu.partition import parse
from paceline_bench.coordination import measure
from paceline_bench.coordination.measure import ALONE, BASELINE, KNOWN, Measurements, Method, divided
from paceline_bench.ranks.input_worker import InputWorker
from paceline_bench.ranks.named import Training

OPTIONS = {"model": "two", "gradients": json.dumps([["a", 5], ["b", 7]]), "units": "3", "input_units": "1"}


@pytest.mark.parametrize("method", ["known", "board", "graph", "cycle"])
def test_wrong_sums_are_counted(method, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}.items():
        monkeypatch.setenv(name, str(value))
    one = Training({**OPTIONS, "method": method, "wait": "yield", "fusion_bytes": "1024"}, timeout=60)
    try:
        reply = one.do_train(1, 2)
        assert reply["wrong"] == 0
        assert method == "known" or sorted(reply["ready"]) == ["a", "b"]
        answers = one.do_answer(3).get("answers", [])
        assert len(answers) == (0 if method == "known" else 3)
        assert all(submitted <= issued for submitted, issued in answers)
        fill = one._gradients[0]

        class Spoiled(np.ndarray):
            def fill(self, value):
                super().fill(value + 1)

        one._gradients[0] = fill.view(Spoiled)
        assert one.do_train(0, 2)["wrong"] == 2 * 3
    finally:
        one.close()


def test_an_input_worker_that_is_gone_is_noticed():
    with InputWorker(1) as worker:
        next_batch(worker)
        worker._process.kill()
        worker._process.wait()
        with pytest.raises(ConnectionError):
            next_batch(worker)


def next_batch(worker):
    worker.ask()
    worker.wait()


def test_ratios_are_taken_round_by_round():
    class Session:
        ranks = 2

    steps = {
        ALONE: [1.0, 1.0, 2.0],
        KNOWN: [2.0, 4.0, 2.0],
        BASELINE: [4.0, 4.0, 8.0],
        Method("board"): [1.0, 4.0, 3.0],
    }
    found = [Measurements(Session(), method, list(times), list(times), list(times)) for method, times in steps.items()]
    rows = {row.policy: row for row in measure.rows(found, "model")}
    assert rows["board"].to_cycle == 0.375
    assert rows["board"].overhead_percent == 0.0
    assert rows["cycle"].overhead_percent == 100.0
    assert rows["board"].compute_ms == 1000.0


def test_the_last_rank_to_be_ready_and_the_last_to_issue_count():
    seen = Measurements(None, Method("board"))
    reply = {"seconds": 1.0, "exposed_seconds": 0.5, "cpu_seconds": 1.0, "wrong": 0, "background_cpu_ns": 4e6}
    reply |= {"oversleep_ns": 3000, "sleeps": 2}
    measure._note(seen, [{**reply, "ready": {"a": [100, 500]}}, {**reply, "ready": {"a": [300, 450]}}], 2)
    assert seen.negotiation == [pytest.approx(200e-9)]
    assert seen.background == [pytest.approx(2e-3)]
    assert (seen.oversleep, seen.sleeps) == (pytest.approx(6e-6), 4)
    measure._note_answers(seen, [{"answers": [[10, 40], [60, 70]]}, {"answers": [[30, 35], [50, 90]]}])
    assert seen.idle == [pytest.approx(10e-9), pytest.approx(30e-9)]


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_divided_cores_are_a_partition_that_the_setting_takes(ranks):
    wish = parse(divided(ranks))
    assert wish.mode == "static" or len(wish.explicit) == ranks


@pytest.mark.long  # eighteen ranks
@pytest.mark.timeout(300)
def test_policies_through_the_command_line(tmp_path):
    file = tmp_path / "rows.json"
    words = ("coordination", "--models", "GoogLeNet", "--compute", 5, "--rounds", 3, "--steps", 1)
    done = bench(*words, "--json", file, seconds=280)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [(row["policy"], row["wait"]) for row in rows] == [
        (method.policy, method.wait) for method in measure.METHODS
    ]
    for row in rows:
        assert row["wrong"] == 0
        assert (row["model"], row["ranks"]) == ("GoogLeNet", 2)
        negotiates = row["policy"] not in ("alone", "known")
        assert (row["negotiation_us"] > 0) == (row["idle_negotiation_us"] > 0) == negotiates
        assert (row["background_cpu_ms"] > 0) == negotiates


def test_a_model_that_nobody_knows_is_refused():
    assert "'ResNet' is none of ResNet-50, GoogLeNet, AlexNet" in refused("coordination", "--models", "ResNet")
