"""`paceline order`: what it prints, writes and draws, and how it refuses."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from random_graphs import graphs

from paceline.cli.main import main
from paceline.order import Collective, Graph, Node, order, parallel, scheme
from paceline.order.draw import MOST_BUFFERS, MOST_NAMED, draw
from paceline.order.file import dump

FIGURE_8 = Path(__file__).parents[2] / "docs" / "graphs" / "figure-8.yaml"


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["order", *map(str, arguments)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_figure_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FIGURE_8, "--json", tmp_path / "o.json", "--draw", tmp_path / "o.svg") == 0
    shown = capsys.readouterr().out
    assert re.search(r"1 +2 +Allreduce 2 +4 KiB +4 +Allreduce 3 needs one of them", shown)
    assert "10 nodes and 8 edges are executed; 5 collectives in 3 buffers" in shown
    found = json.loads((tmp_path / "o.json").read_text())
    assert [one["names"] for one in found["buffers"]] == [
        ["Allreduce 0", "Allreduce 1"],
        ["Allreduce 2"],
        ["Allreduce 3", "Allreduce 4"],
    ]
    assert [(one["id"], one["depth"], one["after"]) for one in found["collectives"]] == [
        (0, 2, None),
        (1, 2, None),
        (2, 4, 0),
        (3, 6, 2),
        (4, 6, 2),
    ]
    picture = (tmp_path / "o.svg").read_text()
    assert all(f"Allreduce {number}<" in picture for number in range(5)) and "buffer 2: 8 KiB" in picture


def test_the_fusion_threshold(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(FIGURE_8, "--fusion-bytes", "4K") == 0
    assert "5 buffers" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "words", "reason"),
    [
        ("nodes: [a]\nedges: [[a, b]]", [], "g.yaml:2: there is no node 'b'"),
        ("nodes: [a, b]\nedges: [[a, b], [b, a]]", [], "g.yaml: these nodes wait for one another: "),
        ("nodes: [a]", ["--fusion-bytes", "many"], "'many' is not a size"),
        ("nodes: [a]", ["--draw", "/none/there.svg"], "cannot write /none/there.svg"),
    ],
)
def test_refusals(text: str, words: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.yaml").write_text(text)
    assert run(tmp_path / "g.yaml", *words) == 2
    said = capsys.readouterr().err
    assert said.startswith("paceline order: ") and reason in said and said.count("\n") == 1


def test_a_graph_without_collectives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.yaml").write_text("nodes: [a]")
    assert run(tmp_path / "g.yaml", "--draw", tmp_path / "g.svg") == 0
    assert capsys.readouterr().out == "1 nodes and 0 edges are executed; 0 collectives in 0 buffers\n"


def bands(picture: str) -> list[tuple[float, float]]:
    """Left and right edges of the buffers' bands, from left to right."""
    found = re.findall(r'<rect x="([-\d.]+)" y="104" width="([\d.]+)"[^>]*fill-opacity="0.12"', picture)
    return [(float(left), float(left) + float(width)) for left, width in found]


@given(graphs(most=60))
@settings(max_examples=50)
def test_bands_are_beside_one_another_and_ids_are_all_there(graph: Graph) -> None:
    ordered = order(graph)
    found = scheme(graph, ordered, 64)
    drawing = draw(graph, ordered, found, "random")
    places = bands(drawing.as_svg())
    assert len(places) == len(found.buffers)
    assert all(right <= left for (_, right), (left, _) in pairwise(places))
    assert all(left >= 0 and right <= drawing.width for left, right in places)
    numbers = re.findall(r'font-weight="bold" text-anchor="middle">(\d+)<', drawing.as_svg())
    assert set(map(str, range(len(ordered.nodes)))) <= set(numbers)


def test_a_large_graph_has_upright_names_and_a_short_legend() -> None:
    many = parallel(Collective(f"layer.{index}.weight", 100) for index in range(MOST_NAMED + 1))
    picture = draw(many, order(many), scheme(many, order(many), 100), "many").as_svg()
    assert picture.count("rotate(90") == MOST_NAMED + 1
    assert f"… and {MOST_NAMED + 1 - MOST_BUFFERS} more buffers" in picture


def test_what_dump_writes_can_be_ordered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = Graph((Node("a"), Node("b", Collective("b", 1))), ((0, 1),), (1,))
    (tmp_path / "g.json").write_text(dump(graph))
    assert run(tmp_path / "g.json") == 0
    assert "1 collectives in 1 buffer" in capsys.readouterr().out
