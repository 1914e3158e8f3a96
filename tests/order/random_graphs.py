"""Random graphs: nodes in any order of insertion, some of them collectives, some fetched."""

from __future__ import annotations

from hypothesis import strategies as st

from paceline.order import Collective, Graph, Node


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> Graph:
    """Acyclic: an edge goes from the lower to the higher place of a hidden order; nodes are added in another."""
    count = draw(st.integers(1, most))
    place = draw(st.permutations(range(count)))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(lambda pair: pair[0] != pair[1])
    hidden = draw(st.lists(pairs, max_size=3 * count))
    edges = tuple((place[min(pair)], place[max(pair)]) for pair in hidden)
    collective = st.builds(
        lambda nbytes, dtype, kind: Collective("", nbytes, dtype, "sum", kind),
        st.integers(0, 40),
        st.sampled_from(["float32"] * 5 + ["int64"]),
        st.sampled_from(["all_reduce"] * 8 + ["all_gather"]),
    )
    nodes = []
    for index in range(count):
        found = draw(st.none() | collective)
        named = found and Collective(f"t{index}", found.nbytes, found.dtype, found.op, found.kind)
        nodes.append(Node(f"n{index}", named))
    fetches = draw(st.lists(st.integers(0, count - 1), max_size=count))
    return Graph(tuple(nodes), edges, tuple(fetches))


def needs(graph: Graph) -> list[set[int]]:
    """Of each node all that it needs, itself left out; by the definition, not quickly."""
    found: list[set[int]] = [set(parents) for parents in graph.parents]
    changed = True
    while changed:
        changed = False
        for node in range(len(found)):
            more = found[node].union(*(found[parent] for parent in found[node]))
            changed |= more != found[node]
            found[node] = more
    return found
