"""`paceline bench convergence`: real data, trainings that are really encoded, and what is left of their figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benched import bench, refused

torch = pytest.importorskip("torch")

from paceline_bench.convergence.measure import CODECS, TRAININGS  # noqa: E402
from paceline_bench.ranks import convergence, real_data  # noqa: E402


@pytest.mark.parametrize("name", TRAININGS)
def test_no_sample_is_for_training_and_for_the_test(name: str) -> None:
    task = real_data.TASKS[name]
    train, test = task.data()
    assert len(train.inputs) // len(test.inputs) == 4 and len(train.inputs) == len(train.targets)
    rows = {row.numpy().tobytes() for row in train.inputs}
    assert sum(row.numpy().tobytes() in rows for row in test.inputs) < 0.1 * len(
        test.inputs
    )  # a manual has lines that repeat
    weights = sum(parameter.nbytes for parameter in task.network().parameters())
    assert weights > 4 * (64 << 10)  # less is not encoded


def test_all_samples_are_evaluated() -> None:
    targets = torch.arange(1300) % 4
    scores = 50.0 * torch.nn.functional.one_hot((targets + (torch.arange(1300) < 13)) % 4, 4)
    loss, share = convergence._evaluated(torch.nn.Identity(), real_data.Samples(scores, targets))
    assert loss == pytest.approx(0.01 * 50) and share == 0.99


def test_a_character_is_predicted_from_those_before_it() -> None:
    (train, _), network = real_data.manual(), real_data.TASKS["text"].network().eval()
    assert torch.equal(train.inputs[:, 1:], train.targets[:, :-1])
    text = train.inputs[:1].clone()
    before = network(text)
    text[0, 20] += 1
    after = network(text)
    torch.testing.assert_close(before[..., :20], after[..., :20])
    assert not torch.allclose(before[..., 20:], after[..., 20:])


@pytest.mark.long  # ten ranks import torch and train
def test_rows_through_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.json"
    done = bench("convergence", "--trainings", "tabular", "--seeds", 1, "--json", file)
    assert done.returncode == 0, done.stderr
    rows = json.loads(file.read_text())
    assert [(one["training"], one["codec"], one["seed"]) for one in rows] == [("tabular", name, 0) for name in CODECS]
    assert {row["final_loss"] for row in rows if row["codec"] != "none"}.isdisjoint({rows[0]["final_loss"]})
    for row in rows:
        assert row["final_loss"] < 0.1 and row["accuracy"] > 0.9
        assert abs(row["to_none"]) <= (0.01 if row["codec"] == "three_in_one" else 0.005), row


def test_an_unknown_training_is_refused() -> None:
    assert "'cats'" in refused("convergence", "--trainings", "cats")
