"""The order and the fusion scheme: the paper's example to the letter, and their properties on random graphs."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import graphs, needs

from paceline.order import Collective, Graph, GraphError, Node, Order, Scheme, executed, order, parallel, scheme

SIZES = st.integers(1, 100)


def names(graph: Graph, ordered: Order) -> list[str]:
    return [graph.collectives[node].name for node in ordered.nodes]


def made(edges: str, fetches: str, nodes: str) -> Graph:
    """Nodes by name, in the order in which they are added; those that are digits are all-reduces of a byte."""
    added = nodes.split()
    return Graph(
        tuple(Node(name, Collective(name, 1) if name.isdigit() else None) for name in added),
        tuple((added.index(edge.split(">")[0]), added.index(edge.split(">")[1])) for edge in edges.split()),
        tuple(added.index(name) for name in fetches.split()),
    )


# All that the text says of figure 8: the fetches are 1, 3 and 4; 0 is a parent of 2, 2 and 3 share a dependency; 1 and
# 4 are parallel and no siblings, 4 the deeper one.
FIGURE_8 = {
    "4 is 3's sibling": ("a>0 b>1 0>c c>2 2>d d>3 2>e e>4", "1 3 4", "a b 0 1 c 2 d e 3 4"),
    "4 is apart": ("a>0 b>1 0>c c>2 2>d d>3 b>e e>f f>g g>h h>4", "1 3 4", "a b 0 1 c 2 d e f g h 3 4"),
    "without any computation": ("0>2 2>3 2>4", "1 3 4", "0 1 2 3 4"),
}


@pytest.mark.parametrize("how", FIGURE_8)
def test_figure_8_of_the_paper(how: str) -> None:
    graph = made(*FIGURE_8[how])
    ordered = order(graph)
    assert names(graph, ordered) == ["0", "1", "2", "3", "4"]
    assert scheme(graph, ordered).buffers == (("0", "1"), ("2",), ("3", "4"))
    assert scheme(graph, ordered).reasons[0] == "2 needs one of them"


def test_figure_8_whatever_was_added_first() -> None:
    edges, fetches, _ = FIGURE_8["4 is apart"]
    graph = made(edges, fetches, "4 3 h 2 g f 1 0 e d c b a")
    assert names(graph, order(graph)) == ["1", "0", "2", "4", "3"], "equally deep: as they were added"
    assert scheme(graph, order(graph)).buffers == (("1", "0"), ("2", "4"), ("3",)), "4 does not need 2"


def test_siblings_go_as_they_were_added_and_others_by_depth() -> None:
    graph = made("a>2 a>1 a>b b>3 a>0", "0 1 2 3", "a 3 b 2 1 0")
    assert names(graph, order(graph)) == ["2", "1", "0", "3"]


def test_only_what_is_fetched_is_executed() -> None:
    graph = made("a>0 0>b b>1 a>2", "0", "a 0 b 1 2")
    assert names(graph, order(graph)) == ["0"]
    assert executed(graph, order(graph)) == (2, 1)
    assert order(made("", "", "0 1")).nodes == ()


def test_a_cycle_is_named() -> None:
    with pytest.raises(GraphError, match=r"wait for one another: .*; one of the edges is wrong"):
        order(made("a>b b>0 0>a", "0", "a b 0"))
    with pytest.raises(GraphError, match="wait for one another: b → b;"):
        order(made("a>b b>b", "b", "a b"))
    ring = " ".join(f"n{i}>n{(i + 1) % 50}" for i in range(50))
    with pytest.raises(GraphError, match="…"):
        order(made(ring, "n7", " ".join(f"n{i}" for i in range(50))))
    graph = made("a>b b>a c>0", "0", "a b c 0")
    assert names(graph, order(graph)) == ["0"], "what is not executed may be wrong"


@pytest.mark.parametrize(
    ("edges", "fetches", "reason"),
    [
        (((0, 2),), (), r"the edge \(0, 2\) leaves the graph: 2 nodes"),
        (((-1, 0),), (), "leaves the graph"),
        ((), (5,), "the fetch 5 is not in the graph"),
    ],
)
def test_numbers_of_no_node(edges: tuple[tuple[int, int], ...], fetches: tuple[int, ...], reason: str) -> None:
    with pytest.raises(GraphError, match=reason):
        Graph((Node("a"), Node("b")), edges, fetches)


def test_a_name_is_given_once() -> None:
    with pytest.raises(GraphError, match="two collectives have the name 'w'"):
        parallel([Collective("w", 1), Collective("w", 2)])
    with pytest.raises(GraphError, match="'w' has -1 bytes"):
        parallel([Collective("w", -1)])


def test_graphs_may_be_deep() -> None:
    count = 200_000
    nodes = tuple(Node(str(i), Collective(str(i), 1) if i % 1000 == 0 else None) for i in range(count))
    graph = Graph(nodes, tuple(pairwise(range(count))), (count - 1,))
    ordered = order(graph)
    assert ordered.nodes == tuple(range(0, count, 1000))
    assert ordered.after == tuple(range(-1, count // 1000 - 1))
    assert {len(buffer) for buffer in scheme(graph, ordered).buffers} == {1}


def test_many_ways_to_a_node_cost_nothing() -> None:
    """2^200 paths, and a stack that holds an edge for each at most."""
    count = 401
    edges = tuple((i, i + step) for i in range(0, count - 1, 2) for step in (1, 2)) + tuple(
        (i + 1, i + 2) for i in range(0, count - 1, 2)
    )
    nodes = (*(Node(str(i)) for i in range(count - 1)), Node("end", Collective("end", 4)))
    ordered = order(Graph(nodes, edges, (count - 1,)))
    assert ordered.depths == tuple(range(1, count + 1))


@given(graphs())
def test_the_order_is_a_linear_extension(graph: Graph) -> None:
    ordered = order(graph)
    above = needs(graph)
    wanted = set(graph.fetches).union(*(above[fetch] for fetch in graph.fetches))
    assert set(ordered.nodes) == wanted & set(graph.collectives)
    assert len(set(ordered.nodes)) == len(ordered.nodes)
    number = {node: place for place, node in enumerate(ordered.nodes)}
    for node in ordered.nodes:
        earlier = [number[one] for one in above[node] if one in number]
        assert all(one < number[node] for one in earlier)
        assert ordered.after[number[node]] == max(earlier, default=-1)
    for one, two in pairwise(ordered.nodes):
        assert (ordered.depths[one], one) < (ordered.depths[two], two)
        if graph.parents[one] == graph.parents[two]:
            assert one < two
    assert executed(graph, ordered) == (len(wanted), sum(child in wanted for _, child in graph.edges))
    assert order(graph) == ordered


@settings(max_examples=40)
@given(graphs(), SIZES)
def test_buffers_are_runs_that_may_be_fused_and_no_fewer_would_do(graph: Graph, most: int) -> None:
    ordered = order(graph)
    found = scheme(graph, ordered, most)
    assert [name for buffer in found.buffers for name in buffer] == names(graph, ordered)
    assert len(found.buffers) == len(found.nbytes) == len(found.reasons)
    above, items = needs(graph), [graph.collectives[node] for node in ordered.nodes]

    def fits(first: int, last: int) -> bool:
        run, nodes = items[first:last], ordered.nodes[first:last]
        alike = len({(item.dtype, item.op) for item in run}) == 1 and {item.kind for item in run} == {"all_reduce"}
        antichain = not any(one in above[two] for one in nodes for two in nodes)
        return len(run) == 1 or (alike and antichain and sum(item.nbytes for item in run) <= most)

    begin = 0
    for buffer, nbytes in zip(found.buffers, found.nbytes, strict=True):
        assert fits(begin, begin + len(buffer))
        assert nbytes == sum(item.nbytes for item in items[begin : begin + len(buffer)])
        begin += len(buffer)
    fewest = [0]
    for last in range(1, len(items) + 1):
        fewest.append(1 + min(fewest[first] for first in range(last) if fits(first, last)))
    assert len(found.buffers) == fewest[-1]


@given(graphs(), SIZES, st.integers(1, 3), st.data())
@settings(max_examples=60)
def test_every_schedule_on_every_rank_comes_to_its_end(
    graph: Graph, most: int, ranks: int, data: st.DataObject
) -> None:
    """Each rank runs what it likes of what can run; a buffer is carried out once all ranks have issued it."""
    ordered = order(graph)
    everywhere = [_Rank(graph, ordered, scheme(graph, ordered, most)) for _ in range(ranks)]
    carried_out = 0
    while not all(rank.finished for rank in everywhere):
        if all(rank.issued > carried_out for rank in everywhere):
            for rank in everywhere:
                rank.complete(carried_out)
            carried_out += 1
            continue
        able = [rank for rank in everywhere if rank.ready]
        assert able, "every rank waits: deadlock"
        rank = data.draw(st.sampled_from(able))
        rank.run(data.draw(st.sampled_from(sorted(rank.ready))))


class _Rank:
    """Dataflow: a node runs when its parents are done, a buffer is issued when full and the one before was."""

    def __init__(self, graph: Graph, ordered: Order, found: Scheme) -> None:
        self.graph, self.found = graph, found
        self.wanted = {node for node, depth in enumerate(ordered.depths) if depth}
        self.node_of = {graph.collectives[node].name: node for node in ordered.nodes}
        self.done: set[int] = set()
        self.submitted: set[int] = set()
        self.issued = 0

    @property
    def finished(self) -> bool:
        return self.done == self.wanted

    @property
    def ready(self) -> set[int]:
        waiting = self.wanted - self.done - self.submitted
        return {node for node in waiting if self.done.issuperset(self.graph.parents[node])}

    def run(self, node: int) -> None:
        if node not in self.graph.collectives:
            self.done.add(node)
            return
        self.submitted.add(node)
        while self.issued < len(self.found.buffers) and self.submitted.issuperset(
            self.node_of[name] for name in self.found.buffers[self.issued]
        ):
            self.issued += 1

    def complete(self, number: int) -> None:
        self.done.update(self.node_of[name] for name in self.found.buffers[number])


@pytest.mark.parametrize(
    ("items", "most", "buffers", "reason"),
    [
        ([("a", 4, "float32"), ("b", 4, "float32")], 8, [["a", "b"]], "nothing comes after it"),
        ([("a", 4, "float32"), ("b", 5, "float32")], 8, [["a"], ["b"]], "with b it would have 9 bytes of 8"),
        ([("a", 99, "float32"), ("b", 5, "float32")], 8, [["a"], ["b"]], "with b it would have 104 bytes of 8"),
        (
            [("a", 4, "float32"), ("b", 4, "float16")],
            64,
            [["a"], ["b"]],
            "b is float16 sum, these are float32 sum",
        ),
    ],
)
def test_reasons(items: list[tuple[str, int, str]], most: int, buffers: list[list[str]], reason: str) -> None:
    graph = parallel(Collective(*item) for item in items)
    found = scheme(graph, order(graph), most)
    assert [list(buffer) for buffer in found.buffers] == buffers
    assert found.reasons[0] == reason


def test_only_all_reduces_are_fused() -> None:
    graph = parallel([Collective("a", 1), Collective("b", 1, kind="all_gather"), Collective("c", 1)])
    found = scheme(graph, order(graph))
    assert found.buffers == (("a",), ("b",), ("c",))
    assert found.reasons == ("b is no all_reduce", "b is no all_reduce", "nothing comes after it")
