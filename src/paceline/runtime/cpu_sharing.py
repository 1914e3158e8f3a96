"""The sharing of a machine's CPUs by its ranks: which parts of them a rank gets, and how long it may spin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from paceline.cpu import budget, pinning
from paceline.cpu.partition import UNDIVIDED, Partition, partition
from paceline.rendezvous import Member
from paceline.settings.settings import Settings


def divide_cores(members: Sequence[Member], me: Member, mine: budget.CpuBudget, settings: Settings) -> Partition:
    """Divide this rank's CPUs among its engine, input workers and compute, and move the threads that compute.

    me: this rank among `members`. mine: the CPUs that it may use. Raises ValueError if the settings name CPUs that this
    rank may not use.
    """
    if settings.cores.mode == "off":
        return UNDIVIDED
    affinities, place = _on_kernel(members, me, settings)
    parts = partition(settings.cores, mine, budget.physical_cores(mine.affinity), affinities, place)
    notes = pinning.place_compute(parts, mine.affinity, settings.bound_by)
    pinning.say(parts, notes, settings.rank, settings.thread_count)
    return parts


def preferred_cpu(members: Sequence[Member], me: Member, mine: budget.CpuBudget, settings: Settings) -> int | None:
    """The CPU that this rank returns to while it waits in small operations; None if any will do.

    Containers on one kernel count as machines. The first rank of each machine speaks for the others and so has most to
    do; therefore CPUs are dealt to all first ranks, then to all second ones, and so on.
    """
    met: Counter[str] = Counter()
    turn: dict[Member, int] = {}
    for member in members:
        turn[member] = met[member.machine]
        met[member.machine] += 1
    return budget.preferred_cpu(mine, *_on_kernel(sorted(members, key=turn.__getitem__), me, settings))


def spin_budget(members: Sequence[Member], me: Member, mine: budget.CpuBudget, settings: Settings) -> budget.SpinBudget:
    """Return the microseconds that this rank's engine spins, and the reason."""
    others = [member.affinity for member in members if member.kernel == me.kernel and member.rank != me.rank]
    unseen = (settings.local_size or 1) - 1 - len(others)  # this group may be a part of the job
    return budget.spin_budget(mine, others + [me.affinity] * unseen, settings.spin_us)


def _on_kernel(members: Sequence[Member], me: Member, settings: Settings) -> tuple[list[frozenset[int]], int]:
    """The affinities of all ranks on this kernel, and the position of this rank among them."""
    here = [member for member in members if member.kernel == me.kernel]
    if (settings.local_size or 0) > len(here):  # this group is a part of the job
        return [me.affinity] * (settings.local_size or 1), settings.local_rank or 0
    return [member.affinity for member in here], here.index(me)
