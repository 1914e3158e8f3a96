"""Number the collectives of a graph in the order in which all ranks issue them.

This is the logical order of Horovod-TOPO: S. Pumma, D. Buono, F. Checconi, X. Que, W. Feng, "Alleviating Load Imbalance
in Data Processing for Large-Scale Deep Learning", CCGRID 2020, section IV-D.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.order.graph import Graph, GraphError

_NEW, _OPEN = 0, -1


@dataclass(frozen=True, slots=True)
class Order:
    """The collectives of the executed subgraph, by their ids 0, 1, …: the order in which all ranks issue them.

    nodes: the index in `graph.nodes` of each id. after: the highest id that each id depends on, -1 where there is none.
    depths: for every node of the graph, the number of nodes on the longest path to it; 0 where it is not executed.
    """

    nodes: tuple[int, ...]
    after: tuple[int, ...]
    depths: tuple[int, ...]


def order(graph: Graph) -> Order:
    """Number the collectives that the fetches need. Raises GraphError for a cycle.

    It takes O(V + E) time, and no recursion, so graphs may be of any depth.

    The paper's rules are: parents before children, siblings in the order in which they were added, and other parallel
    operations by their depth in the subgraph. One sort key obeys all three: the depth (of the longest path), then the
    place in `graph.nodes`. A child is deeper than its parents; siblings have the same parents and so the same depth.
    (Nodes that share only some parents go by depth, since one of them may need the other.)

    One depth-first traversal, backwards from the fetches, finishes each node after its parents. A node's depth follows
    from theirs, and so does the last collective that it needs: the one with the greatest key, because keys only grow
    along a path. A counting sort by depth turns the keys into ids.
    """
    count = len(graph.nodes)
    parents, collectives = graph.parents, graph.collectives
    depth = [_NEW] * count
    last = [-1] * count  # greatest key (depth · count + index) of a collective among a node and all that it needs
    needed: dict[int, int] = {}  # the same for each collective, without the collective itself
    stack = list(graph.fetches)
    pop, push, push_all = stack.pop, stack.append, stack.extend
    while stack:
        node = pop()
        if node >= 0:
            while not depth[node]:
                depth[node] = _OPEN
                push(~node)  # it is finished once everything above it on the stack is
                needs = parents[node]
                if len(needs) != 1:
                    push_all(needs)
                    break
                node = needs[0]
            continue
        node = ~node
        deepest, latest = 0, -1
        for parent in parents[node]:
            above = depth[parent]
            if above > deepest:
                deepest = above
            elif above == _OPEN:
                raise GraphError(_cycle(graph, parent))
            above = last[parent]
            if above > latest:
                latest = above
        depth[node] = deepest = deepest + 1
        if node in collectives:
            needed[node] = latest
            latest = deepest * count + node
        last[node] = latest
    numbered = _sorted([node for node in collectives if node in needed], depth)
    ids = {node: number for number, node in enumerate(numbered)}
    after = (ids[needed[node] % count] if needed[node] >= 0 else -1 for node in numbered)
    return Order(tuple(numbered), tuple(after), tuple(depth))


def executed(graph: Graph, ordered: Order) -> tuple[int, int]:
    """Return the numbers of nodes and edges of the executed subgraph."""
    parents = [above for above, depth in zip(graph.parents, ordered.depths, strict=True) if depth]
    return len(parents), sum(map(len, parents))


def _sorted(nodes: list[int], depth: list[int]) -> list[int]:
    """Sort nodes by depth, and those of equal depth in the order given; linear in the nodes and the depth."""
    levels: list[list[int] | None] = [None] * (max((depth[node] for node in nodes), default=0) + 1)
    for node in nodes:
        level = levels[depth[node]]
        if level is None:
            levels[depth[node]] = [node]
        else:
            level.append(node)
    return [node for level in filter(None, levels) for node in level]


def _cycle(graph: Graph, start: int) -> str:
    """Describe the cycle that `start` is on: some path from parent to parent comes back to it."""
    child_of = {start: start}
    stack = [start]
    while stack:
        node = stack.pop()
        for parent in graph.parents[node]:
            if parent == start:
                path = [node]
                while path[-1] != start:
                    path.append(child_of[path[-1]])
                names = [graph.nodes[one].name for one in path]
                shown = " → ".join(names if len(names) <= 6 else [*names[:3], "…", *names[-2:]])
                return f"these nodes wait for one another: {shown} → {names[0]}; one of the edges is wrong"
            if parent not in child_of:
                child_of[parent] = node
                stack.append(parent)
    raise AssertionError("no cycle")
