"""The ranks that have not joined a meeting, named in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from paceline.errors import NOBODY, Culprit, RendezvousError

NAMED = 20
"""Ranks that a message lists."""


def absent(hosts: Mapping[int, str], size: int, knows_all: bool, within: str, where: str) -> RendezvousError:
    """Return an error that names the ranks that have not joined.

    hosts: the host of each rank that has joined. knows_all: whether the caller looked for all `size` ranks. within: the
    text of the time limit, "" while it is not reached. where: the text of the place where they meet.
    """
    here = ", ".join(f"rank {rank} on {hosts[rank]}" for rank in sorted(hosts)[:NAMED])
    came = here + (", ..." if len(hosts) > NAMED else "")
    if not knows_all:
        lacking = "rank 0 has not joined" if 0 not in hosts else "rank 0 joined and knows which ranks are missing"
        return RendezvousError(
            f"{lacking}{within} ({came} of {size} ranks){where}", Culprit(0) if 0 not in hosts else NOBODY
        )
    missing = sorted(set(range(size)) - hosts.keys())
    if not missing:
        silence = "but rank 0 did not answer" if within else "and rank 0 has yet to answer"
        return RendezvousError(f"all {size} ranks joined, {silence}{within}: {came}{where}", Culprit(0, hosts[0]))
    listed = ", ".join(map(str, missing[:NAMED])) + (", ..." if len(missing) > NAMED else "")
    plural = "rank" if len(missing) == 1 else "ranks"
    return RendezvousError(
        f"{len(hosts)}/{size} joined{within}, missing {plural} {listed} (joined: {came}){where}",
        Culprit(missing[0]) if len(missing) == 1 else NOBODY,
    )
