"""The ranks that have not joined a meeting, named in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.errors import NOBODY, Culprit, RendezvousError

NAMED = 20
"""Ranks that a message lists."""
_LOOKED_UP = 64
"""The most ranks of a job in which each rank looks up for itself which ranks are there."""


def looked_up(rank: int, size: int) -> Sequence[int]:
    """Return the ranks that `rank` looks up for a message: few in large jobs, as rank 0 answers all reads."""
    return range(size) if rank == 0 or size <= _LOOKED_UP else (0, rank)


def absent(hosts: Mapping[int, str], rank: int, size: int, within: str, where: str) -> RendezvousError:
    """Return an error of `rank` that names the ranks that have not joined.

    hosts: the host of each rank that has joined, of those that `rank` looks up. within: the text of the time limit, ""
    while it is not reached. where: the text of the place where they meet.
    """
    here = ", ".join(f"rank {one} on {hosts[one]}" for one in sorted(hosts)[:NAMED])
    came = here + (", ..." if len(hosts) > NAMED else "")
    if len(looked_up(rank, size)) < size:
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
