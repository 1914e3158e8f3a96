"""The speed of each stream into a machine when all streams of a plan flow at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from paceline.plan.wire import PlanEntry
from paceline.topology.discover import Placement


def stream_rate(placement: Placement, plans: Mapping[str, Sequence[PlanEntry]], rank: int) -> float:
    """Return the bytes per second of each stream into the machine of `rank`, in the all-reduce of large buffers.

    The machine's link is shared equally by the pairs of ranks that send into it in one half. The result is infinite
    where the machine has no link of known speed.
    """
    for machine, places in placement.topology.machines():
        here = {placement.ranks[place] for place in places}
        if rank in here and machine.uplink is not None:
            return machine.uplink.down / max(1, _streams(plans["all_reduce"][-1], here))
    return math.inf


def _streams(entry: PlanEntry, here: set[int]) -> int:
    """The pairs of a sender elsewhere and a receiver here, in the half that has more of them."""
    reduces, copies = set[tuple[int, int]](), set[tuple[int, int]]()
    for level in entry[-1]:
        for *_, holders, owner in level:
            if owner in here:
                reduces.update((holder, owner) for holder in holders if holder not in here)
            else:
                copies.update((owner, holder) for holder in holders if holder in here)
    return max(len(reduces), len(copies))
