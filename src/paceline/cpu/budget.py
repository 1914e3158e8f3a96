"""Find how many CPUs this process may really use, and how long it may therefore spin while it waits.

The affinity mask says which CPUs the scheduler may pick, and a cgroup quota how much of their time may be used; a
container on a 64-core machine often has both. Everything here is a pure function of text, except the small
readers at the end.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from paceline.calibration import cpu as fitted
from paceline.cpu.cgroup import Reader, cgroup_folders, read_file


@dataclass(frozen=True, slots=True)
class CpuBudget:
    """The CPUs that one process may use, and the reason in one sentence.

    cpus: the smaller of the affinity's size and the quota. affinity: CPU numbers, ascending. quota: the cgroup's limit
    in CPUs, None without one.
    """

    cpus: float
    affinity: tuple[int, ...]
    quota: float | None
    reason: str


@dataclass(frozen=True, slots=True)
class SpinBudget:
    """The microseconds for which a waiting rank may spin before it sleeps, and the reason in one sentence."""

    microseconds: float
    reason: str


def budget(affinity: Iterable[int], quota: float | None, quota_file: str = "cgroup") -> CpuBudget:
    """Combine the CPUs of the affinity mask with the quota (in CPUs; None: no limit), which `quota_file` imposes."""
    cpus = tuple(sorted(affinity))
    if quota is not None and quota < len(cpus):
        return CpuBudget(quota, cpus, quota, f"{quota:g} CPUs by {quota_file}, of {len(cpus)} in the affinity")
    return CpuBudget(float(len(cpus)), cpus, quota, f"{len(cpus)} CPUs in the affinity, no lower cgroup quota")


def spin_budget(mine: CpuBudget, neighbours: Iterable[frozenset[int]], configured: float | None = None) -> SpinBudget:
    """Return how long to spin when `neighbours` (affinities of the machine's other ranks) wait at the same time.

    A rank that spins without a CPU of its own takes the time slice of the rank that it is waiting for.
    configured: the microseconds of PACELINE_SPIN_US, which win; None where it is not set.
    """
    if configured is not None:
        return SpinBudget(configured, "PACELINE_SPIN_US")
    rivals = [other for other in neighbours if other & frozenset(mine.affinity)]
    ranks = len(rivals) + 1
    shared = float(len(frozenset(mine.affinity).union(*rivals)))
    cpus = shared if mine.quota is None else min(shared, mine.quota)
    if cpus >= ranks:
        return SpinBudget(fitted.SPIN_US, f"a CPU for each of {ranks} ranks ({cpus:g} CPUs)")
    return SpinBudget(0.0, f"{ranks} ranks share {cpus:g} CPUs: no rank spins")


def preferred_cpu(mine: CpuBudget, ranks: Sequence[frozenset[int]], place: int) -> int | None:
    """Return the preferred CPU of the rank at `place` of `ranks` (the affinities of all ranks on this kernel).

    A rank has one where the ranks with the same affinity outnumber its CPUs; each CPU is then preferred by about the
    same number of ranks. Elsewhere the result is None.
    """
    alike = [index for index, cpus in enumerate(ranks) if cpus == frozenset(mine.affinity)]
    if len(alike) <= len(mine.affinity):
        return None
    return mine.affinity[alike.index(place) % len(mine.affinity)]


def quota_v2(cpu_max: str) -> float | None:
    """Return the CPUs that the text of a `cpu.max` file grants: 2.0 for "200000 100000", None for "max" or nonsense."""
    match cpu_max.split():
        case [limit, period] if limit.isdigit() and period.isdigit() and int(period) > 0 and int(limit) > 0:
            return int(limit) / int(period)
    return None


def quota_v1(quota_us: str, period_us: str) -> float | None:
    """Return the CPUs that `cpu.cfs_quota_us` and `cpu.cfs_period_us` grant; None for -1 or nonsense."""
    return quota_v2(f"{quota_us.strip()} {period_us.strip()}")


def cgroup_quota(read: Reader) -> tuple[float, str] | None:
    """Return the lowest quota between this process's cgroup and the root, in CPUs, and its file; None without one."""
    found: list[tuple[float, str]] = []
    for folder, version in cgroup_folders(read, "cpu"):
        if version == 2:
            name = f"{folder}/cpu.max"
            quota = quota_v2(read(name) or "")
        else:
            name = f"{folder}/cpu.cfs_quota_us"
            quota = quota_v1(read(name) or "", read(f"{folder}/cpu.cfs_period_us") or "")
        if quota is not None:
            found.append((quota, name))
    return min(found, default=None)


def sessions_are_grouped(read: Reader) -> bool:
    """Return whether the kernel divides CPU time between sessions first (autogroups), and only then between processes.

    It does not in a cgroup with the cpu controller, as in most containers.
    """
    if (read("/proc/sys/kernel/sched_autogroup_enabled") or "").strip() != "1":
        return False
    folders = cgroup_folders(read, "cpu")
    if any(version == 2 and read(f"{folder}/cpu.weight") is not None for folder, version in folders):
        return False
    own = next((folder for folder, version in folders if version == 1), None)
    return own is None or read(f"{own}/release_agent") is not None  # only the root cgroup has this file


def available(read: Reader = read_file) -> CpuBudget:
    """Return what this process may use now."""
    quota = cgroup_quota(read)
    affinity = os.sched_getaffinity(0)
    return budget(affinity, None) if quota is None else budget(affinity, quota[0], quota[1])


def physical_cores(affinity: Iterable[int], read: Reader = read_file) -> tuple[tuple[int, ...], ...]:
    """Return the CPUs of the affinity by physical core, SMT siblings together; cores of one socket are neighbours."""
    cores: dict[tuple[int, int], list[int]] = {}
    for cpu in sorted(affinity):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        siblings = re.match(r"\d+", read(f"{folder}/thread_siblings_list") or "")
        socket = re.match(r"\d+", read(f"{folder}/physical_package_id") or "")
        key = (int(socket[0]) if socket else 0, int(siblings[0]) if siblings else cpu)
        cores.setdefault(key, []).append(cpu)
    return tuple(tuple(cores[key]) for key in sorted(cores))


def ranges(cpus: Sequence[int]) -> str:
    """Return CPU numbers as Linux writes them: "0-3,8"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][-1] + 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
