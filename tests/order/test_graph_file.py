"""Graphs in files: what is read, and what is wrong with a file, by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from random_graphs import graphs

from paceline.order import Collective, Graph, GraphError, Node, order
from paceline.order.file import dump, parse, read

EXAMPLE = """\
nodes:
  - forward
  - {name: gradient, bytes: 4096, dtype: float16, op: avg}
  - {name: statistics, bytes: 8, kind: all_gather}
edges:
  - [forward, gradient]
fetches: [gradient]
"""


def test_the_example() -> None:
    assert parse(EXAMPLE) == Graph(
        (
            Node("forward"),
            Node("gradient", Collective("gradient", 4096, "float16", "avg")),
            Node("statistics", Collective("statistics", 8, kind="all_gather")),
        ),
        ((0, 1),),
        (1,),
    )


def test_without_fetches_everything_is_executed() -> None:
    assert parse("nodes: [a, b]").fetches == (0, 1)


@settings(max_examples=40)
@given(graphs())
def test_what_is_written_is_read(graph: Graph) -> None:
    named = tuple(Node(node.collective.name if node.collective else node.name, node.collective) for node in graph.nodes)
    graph = Graph(named, graph.edges, graph.fetches)
    assert parse(dump(graph)) == graph
    assert order(parse(dump(graph))) == order(graph)


def test_names_in_a_file_are_given_once() -> None:
    with pytest.raises(GraphError, match="two nodes have the name 'a'"):
        dump(Graph((Node("a"), Node("a")), (), ()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "1: the file is empty; a graph begins like this: nodes: [forward]"),
        ("[1]", "1: a graph is a mapping; begin with nodes: [forward]"),
        ("edges: []", "1: nodes is missing; begin with nodes: [forward]"),
        ("nodes: a", "1: this must be a list"),
        ("nodes:\n  - a\n  - b\n  - a", "4: the name 'a' is taken by line 2; choose another"),
        ("nodes:\n  - {nme: a}", "2: a node is a name, or a collective such as {name: gradient, bytes: 4096}"),
        ("nodes:\n  - a\n  - {name: b, bytes: 4, typ: x}", "3: 'typ' is not known here; known are name, bytes, dtype"),
        ("nodes:\n  - {name: b, op: sum}", "2: a collective says how many bytes it moves"),
        ("nodes:\n  - {name: b, bytes: -4}", "2: bytes must be a whole number such as 4096, not '-4'"),
        (
            "nodes:\n  - a\n  - {name: b, bytes: 4, dtype: float31}",
            "3: there is no dtype 'float31'; there are float16, ",
        ),
        ("nodes:\n  - ''", "2: a name is one line of up to 255 printable characters"),
        ("nodes: [a]\nedges:\n  - [a]", "3: an edge is a pair of names"),
        ("nodes: [a]\nedges:\n  - [a,\n     b]", "4: there is no node 'b'; write it under nodes"),
        ("nodes: [a]\nfetches: [a, c]", "2: there is no node 'c'"),
        ("nodes: [a]\nfetch: [a]", "2: 'fetch' is not known here; known are nodes, edges, fetches"),
        ("nodes: [a]\n---\n", "2: a graph is one YAML document"),
        ("nodes: [a\n", "this is not YAML"),
    ],
)
def test_errors_name_line_and_reason(text: str, reason: str) -> None:
    with pytest.raises(GraphError) as error:
        parse(text, "g.yaml")
    assert str(error.value).startswith("g.yaml:") and reason in str(error.value)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "g.yaml").write_text(EXAMPLE)
    assert read(tmp_path / "g.yaml") == parse(EXAMPLE)
    with pytest.raises(GraphError, match=r"cannot read .*: No such file"):
        read(tmp_path / "none")
