"""The plans of a group in the engine's form, and a word in the log on why they were chosen."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from paceline.plan.choice import Choice
from paceline.plan.choose import COLLECTIVES, choose
from paceline.plan.wire import PlanEntry, to_wire
from paceline.topology import Topology

log = logging.getLogger("paceline.plan")


def plans(
    topology: Topology, ranks: Sequence[int] | None = None, algorithm: str | None = None
) -> dict[str, list[PlanEntry]]:
    """Every plan that a group on `topology` needs, by collective; the arguments are those of `choose`.

    "all_reduce" is the reduce-scatter half, mirrored by the engine; in "all_gather", of the same form, rank i
    owns block i; "broadcast" is to be read backwards from rank 0. From another root, where there are entries for
    "turned_broadcast", the data climb one's tree from that root, then go down the rest of it; elsewhere ranks count on.
    """
    # Not cached: the engine takes it over when a group is made, and a ring of 64 ranks weighs 0.5 MB.
    chosen = {collective: choose(collective, topology, ranks, algorithm) for collective in COLLECTIVES}
    for collective, choices in chosen.items():
        for choice in choices:
            log.info("%s of %d ranks: %s", collective, topology.world, choice.reason)
    return {collective: list(map(_entry, choices)) for collective, choices in chosen.items() if choices}


def _entry(choice: Choice) -> PlanEntry:
    return choice.limit, choice.name, choice.one_shot, choice.chunk, to_wire(choice.plan)
