"""`paceline plan --model` measures the model that is named, and shows how it is best divided."""

from __future__ import annotations

import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest.importorskip("torch")

from paceline.cli.main import main
from paceline.formats.sizes import show_bytes

NETWORK = """
name: pair
children:
  - {machine: alpha, ranks: 1, uplink: 20 Mbit/s, latency: 50 us}
  - {machine: beta, ranks: 1, uplink: 20 Mbit/s, latency: 50 us}
"""
MODEL = """
import torch
def heavy():
    return torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(6))), torch.randn(8, 512)
def odd():
    return torch.nn.Linear(2, 2)
def failing():
    raise RuntimeError("no such data")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The module's name; it lies in the folder that the command is started in."""
    (tmp_path / "pair.yaml").write_text(NETWORK)
    (tmp_path / "nets_of_a_user.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "nets_of_a_user", raising=False)
    return "nets_of_a_user"


def plan(*options: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["plan", "--topology", "pair.yaml", *options])
    return int(ended.value.code or 0)


def test_heavy_weights_are_not_exchanged(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A replica's 6 MiB of gradients take 2.5 s over this link, a microbatch's activations some milliseconds."""
    assert plan("--model", f"{module}:heavy", "--draw", "step.svg", "--json", "rows.json") == 0
    shown = capsys.readouterr().out
    assert "Sequential on pair, 2 ranks, batch 8" in shown
    assert "2 × 1 with" in shown and "a step is predicted to take" in shown and "with 1 × 2 with" in shown
    rows = json.loads(Path("rows.json").read_text())
    (chosen,) = [row for row in rows if row["chosen"]]
    assert (chosen["partitions"], chosen["replicas"]) == (2, 1)
    assert chosen["seconds"] <= 1.01 * min(row["seconds"] for row in rows)
    assert len(chosen["bytes"]) == 2 and chosen["received_bytes"][0] == 0
    assert chosen["received_bytes"][1] * chosen["microbatches"] == 8 * 512 * 4
    picture = ElementTree.parse("step.svg").getroot()
    texts = [element.text for element in picture.iter() if element.tag.endswith("text")]
    assert {"partition 0", "partition 1", "optimizer"} <= set(texts)
    (cut,) = [text for text in texts if text and text.startswith("stage 0 to 1, behind ")]
    crossing = show_bytes(chosen["received_bytes"][1])
    assert cut.endswith(f"(partition 0 to 1): {crossing} of activations, {crossing} of gradients")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--model", "nets_of_a_user"], "--model is MODULE:FUNCTION, found 'nets_of_a_user'"),
        (["--model", "nets_of_a_user:nothing"], "module 'nets_of_a_user' has no attribute 'nothing'"),
        (["--model", "nets_of_a_user:failing"], "RuntimeError: no such data"),
        (["--model", "nets_of_a_user:odd"], "returns Linear, and has to return a model and an example"),
        (["--model", "nets_of_a_user:heavy", "--compare"], "leave out --compare and --algorithm"),
        (["--model", "nets_of_a_user:heavy", "--memory", "1M"], "can't be divided among 2 ranks: no cut into 2"),
        (["--model", "nets_of_a_user:heavy", "--schedule", "2F2B"], "there is no schedule '2F2B'"),
    ],
)
def test_what_is_wrong_is_said(module: str, capsys: pytest.CaptureFixture[str], options: list[str], words: str) -> None:
    assert plan(*options) == 2
    assert words in capsys.readouterr().err
