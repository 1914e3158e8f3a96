"""The position of a rank among the machines, in Horovod's terms."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """The position of a rank.

    local_rank, local_size: among the ranks of its machine. cross_rank, cross_size: among the ranks with its local rank,
    one on each machine. homogeneous: whether all machines have the same number of ranks.
    """

    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    homogeneous: bool


def place(rank: int, machines: Sequence[str]) -> Place:
    """Return the position of `rank`. Rank i is on machine `machines[i]`; machines are ordered by their first ranks."""
    here = machines[rank]
    sizes = Counter(machines)
    local_rank = machines[:rank].count(here)
    as_deep = [machine for machine, size in sizes.items() if size > local_rank]
    return Place(local_rank, sizes[here], as_deep.index(here), len(as_deep), len(set(sizes.values())) == 1)


def rank_variables(hosts: Sequence[str]) -> list[dict[str, str]]:
    """Return for each rank the variables that horovodrun sets and some scripts read. Rank i is on host `hosts[i]`."""
    found = []
    for rank, host in enumerate(hosts):
        where = place(rank, hosts)
        numbers = {
            "RANK": rank,
            "SIZE": len(hosts),
            "LOCAL_RANK": where.local_rank,
            "LOCAL_SIZE": where.local_size,
            "CROSS_RANK": where.cross_rank,
            "CROSS_SIZE": where.cross_size,
        }
        found.append({"HOROVOD_HOSTNAME": host, **{f"HOROVOD_{name}": str(value) for name, value in numbers.items()}})
    return found
