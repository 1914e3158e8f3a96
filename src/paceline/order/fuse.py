"""Decide which collectives are fused, by the scheme of Horovod-TOPO (section IV-D of the paper that `number` cites)."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.order.graph import Collective, Graph
from paceline.order.number import Order

FUSION_BYTES = 64 << 20
"""Bytes of a fusion buffer, as in Horovod."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """The fusion buffers, in the order in which all ranks issue them.

    buffers: the names of the collectives in each. nbytes: the bytes of each. reasons: why each holds no more.
    """

    buffers: tuple[tuple[str, ...], ...]
    nbytes: tuple[int, ...]
    reasons: tuple[str, ...]


def scheme(graph: Graph, ordered: Order, fusion_bytes: int = FUSION_BYTES) -> Scheme:
    """Cut the order into the fewest fusion buffers, each a run of consecutive ids that can be fused.

    A run can be fused if it is an antichain (no member needs another), its members are all-reduces of one dtype and op,
    and they have at most `fusion_bytes` bytes together. A larger collective, and one that is not an all-reduce, has a
    buffer of its own. The cut takes time linear in the number of collectives.

    A run that begins at id s is an antichain exactly if `after` of each member is below s. If member b needs member a,
    then after[b] ≥ a ≥ s. If after[b] ≥ s, then b needs that id, which is below b and so within the run. A part of a
    run that can be fused can be fused too, so making each run as long as possible gives the fewest buffers.

    No deadlock is possible if every rank issues buffer k as soon as buffer k - 1 was issued and all of k was submitted:
    what the members of k need has smaller ids and is not in k, so it is in earlier buffers. When these are done,
    nothing keeps any rank from submitting the members of k, and k is issued. By induction all buffers are issued,
    however the rest of the graph is scheduled.
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
    """Return the reason why `item` cannot join the run, "" where it can."""
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
