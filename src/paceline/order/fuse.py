"""Which collectives go together: the fusion scheme of Horovod-TOPO (section IV-D of the paper that `number` cites)."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.order.graph import Collective, Graph
from paceline.order.number import Order

FUSION_BYTES = 64 << 20
"""Of a fusion buffer, as in Horovod."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """Names of the collectives of each fusion buffer, in the order in which all ranks issue the buffers.

    nbytes: of each buffer. reasons: why each holds no more.
    """

    buffers: tuple[tuple[str, ...], ...]
    nbytes: tuple[int, ...]
    reasons: tuple[str, ...]


def scheme(graph: Graph, ordered: Order, fusion_bytes: int = FUSION_BYTES) -> Scheme:
    """Cut the order into fusion buffers: as few as can be of runs of ids that may be fused. O(number of collectives).

    A run may be fused if it is an antichain (no member needs another), all-reduces of one dtype and op, and no more
    than `fusion_bytes` together. A larger collective, and one that is no all-reduce, has a buffer of its own.

    A run from id s on is an antichain exactly if `after` of each member is below s. If a member a is needed by a
    member b, then after[b] ≥ a ≥ s; and if after[b] ≥ s, that id is needed by b, so it is below b and within the run.
    Parts of runs that may be fused may be fused, so taking as much as possible each time gives the fewest buffers.

    Nothing deadlocks where every rank issues buffer k as soon as k - 1 was issued and all of k was handed in: what
    members of k need has smaller ids and is not in k, so it is in buffers before k. When these are done, nothing keeps
    the members from being handed in on every rank, and k goes; by induction all go, however the rest of the graph is
    scheduled.
    """
    buffers: list[tuple[str, ...]] = []
    sizes: list[int] = []
    reasons: list[str] = []
    run: list[Collective] = []
    first = total = 0
    for number, node in enumerate(ordered.nodes):
        item = graph.collectives[node]
        reason = _refusal(run, total, item, ordered.after[number] >= first, fusion_bytes) if run else ""
        if reason:
            buffers.append(tuple(member.name for member in run))
            sizes.append(total)
            reasons.append(reason)
            run, first, total = [], number, 0
        run.append(item)
        total += item.nbytes
    if run:
        buffers.append(tuple(member.name for member in run))
        sizes.append(total)
        reasons.append("nothing comes after it")
    return Scheme(tuple(buffers), tuple(sizes), tuple(reasons))


def _refusal(run: list[Collective], total: int, item: Collective, needs_one: bool, fusion_bytes: int) -> str:
    """Why `item` cannot join the run, "" where it can."""
    like = run[0]
    if needs_one:
        return f"{item.name} needs one of them"
    if item.kind != "all_reduce" or like.kind != "all_reduce":
        return f"{item.name if item.kind != 'all_reduce' else like.name} is no all_reduce"
    if (item.dtype, item.op) != (like.dtype, like.op):
        return f"{item.name} is {item.dtype} {item.op}, these are {like.dtype} {like.op}"
    if total + item.nbytes > fusion_bytes:
        return f"with {item.name} it would have {total + item.nbytes} bytes of {fusion_bytes}"
    return ""
