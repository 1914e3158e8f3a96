"""Makes the plans of a group in the engine's form, and logs which were chosen and why."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from paceline.plan.choose import COLLECTIVES, choose, pick
from paceline.plan.wire import PlanEntry, entry
from paceline.topology import Topology
from paceline.topology.judge import MOST_NAMES, binding

log = logging.getLogger("paceline.plan")

_LARGE = 32 << 20
"""Bytes of a buffer that counts as large on every network."""


def plans(
    topology: Topology, ranks: Sequence[int] | None = None, algorithm: str | None = None
) -> dict[str, list[PlanEntry]]:
    """Every plan that a group on `topology` needs, by collective; the arguments are those of `choose`.

    "all_reduce" holds the reduce-scatter half, which the engine mirrors. "all_gather" has the same form, and rank i
    owns block i. "broadcast" is to be read backwards from rank 0. For another root, if there are entries for
    "turned_broadcast", the data climb their tree from that root and then go down the rest of it; otherwise ranks are
    counted from the root on.
    """
    # The result is not cached: the engine takes it over when a group is made, and a ring of 64 ranks takes 0.5 MB.
    chosen = {collective: choose(collective, topology, ranks, algorithm) for collective in COLLECTIVES}
    for collective, choices in chosen.items():
        for choice in choices:
            log.debug("%s of %d ranks: %s", collective, topology.world, choice.reason)
    return {collective: list(map(entry, choices)) for collective, choices in chosen.items() if choices}


def tell(topology: Topology, news: str, algorithm: str | None) -> None:
    """Log which all-reduce serves large buffers, and which links limit it.

    It is a warning if a link is slower than others, or than its interface says, because perhaps nobody knows of that.
    news: the links that are not what they were taken for, in words. algorithm: the one that was asked for, if any.
    """
    binds = binding(topology)
    if not binds and not news and not log.isEnabledFor(logging.INFO):
        return
    machines = sum(len(ranks) > 0 for _, ranks in topology.machines())
    said = f"{topology.world} ranks on {machines} machines: large all-reduces go by "
    said += algorithm or pick("all_reduce", topology, _LARGE).name
    if binds:
        said += f"; what binds is {', '.join(binds[:MOST_NAMES])}"
    elif machines > 2:
        said += "; no link is slower than the others"
    said += f"; links were measured: {news}" if news else ""
    log.log(logging.WARNING if binds or news else logging.INFO, "%s", said)
