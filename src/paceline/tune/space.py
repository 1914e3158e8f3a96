"""The settings that are worth trying on the CPUs that this process may use."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from paceline.cpu.budget import CpuBudget
from paceline.cpu.partition import parse, partition
from paceline.tune.setting import Samples, Setting, Shape

_DIVISIONS = ("static", "adaptive")


def space(
    budget: CpuBudget,
    cores: Sequence[Sequence[int]],
    batches: Sequence[int | None] = (None,),
    interops: Sequence[int | None] = (None,),
    shapes: Sequence[Shape | None] = (None,),
    threads_per_cpu: int = 1,
    processes: int | None = None,
) -> list[Setting]:
    """Return the settings, the least demanding first.

    The processes are the divisors of the number of CPUs, so that each gets as many as the others. Each process has one
    thread, half a thread for each of its CPUs, or one for each. Where a process has two cores or more, its cores are
    also divided, and the division says how many threads compute. All of that is combined with every one of `batches`
    and `interops`, and with those of `shapes` that have as many processes.

    budget: the CPUs. cores: the affinity by physical core, as `paceline.cpu.budget.physical_cores` returns it.
    threads_per_cpu: with 2, there are settings with two threads for each CPU as well. Threads that share a CPU spin
    there while they wait for each other, so nobody should expect one of these to be the fastest. processes: the number
    of a job on several machines that share these CPUs, as those of a lab do; there may be more than CPUs.
    """
    cpus = max(1, int(budget.cpus))
    found = []
    divisors = [number for number in range(1, cpus + 1) if cpus % number == 0]
    for count in divisors if processes is None else [processes]:
        own = max(1, cpus // count)
        for threads in sorted({1, max(1, own // 2), own, threads_per_cpu * own}):
            found.append(Setting(count, threads))
        for mode in _DIVISIONS:
            divided = partition(parse(mode), budget, cores, [frozenset(budget.affinity)] * count, 0)
            if divided.parts.cpus and divided.threads:
                found.append(Setting(count, divided.threads, mode))
    every = [
        Setting(one.processes, one.threads, one.cores, interop, batch, shape)
        for one, interop, batch, shape in product(found, interops, batches, shapes)
        if shape is None or shape.processes == one.processes
    ]
    return sorted(every, key=lambda setting: setting.demand)


def inside(settings: Sequence[Setting], samples: Samples, wanted: range | None) -> list[Setting]:
    """Return the settings whose effective batch is in the range `wanted`; all of them if that leaves none."""
    fitting = [one for one in settings if wanted is None or one.batch is None or samples.per_step(one) in wanted]
    return fitting or list(settings)
