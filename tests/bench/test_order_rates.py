"""`paceline bench order`: the nine networks and a graph as large as the paper's largest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")

from paceline.cli.main import main
from paceline.order import executed, order
from paceline_bench.graphs.measure import LARGE, PAPER, large_graph


def test_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bench", "order", "--rounds", "3", "--json", str(tmp_path / "rows.json")])
    assert ended.value.code == 0
    rows = {row["network"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert set(rows) == {*PAPER, f"{LARGE} random"}
    assert [rows[name]["tensors"] for name in ("ResNet-50", "AlexNet", "VGG16")] == [161, 16, 32]
    assert rows["ResNet-50"]["buffers"] == 2 and rows["ResNet-50"]["paper_ms"] == 159
    for row in rows.values():
        assert 0 < row["ms_q1"] <= row["ms"] <= row["ms_q3"] and row["record_ms"] > 0
        assert row["nodes"] >= 2 * row["tensors"] and row["edges"] >= row["nodes"] - 1
    shown = capsys.readouterr().out
    assert all(name in shown for name in rows)


def test_the_large_graph_is_all_executed() -> None:
    graph = large_graph()
    nodes, edges = executed(graph, order(graph))
    assert nodes + edges == LARGE and nodes == len(graph.nodes)
