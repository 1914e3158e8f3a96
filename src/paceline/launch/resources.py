"""Decides how many threads each rank uses and which CPUs it may run on, with the reasons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from paceline.cpu.budget import CpuBudget, ranges
from paceline.cpu.partition import Partition
from paceline.launch.threads import THREAD_VARIABLES, thread_variables


class Budget(Protocol):
    """The CPUs that this process may really use; `paceline.cpu.budget.available()` returns one."""

    @property
    def cpus(self) -> float:
        """The number of CPUs, which a quota may make a fraction."""

    @property
    def affinity(self) -> tuple[int, ...]:
        """The numbers of the CPUs that the process may run on."""

    @property
    def quota(self) -> float | None:
        """The cgroup's quota in CPUs, None without one."""


@dataclass(frozen=True)
class Resources:
    """The resources that each rank of this machine uses.

    threads: per rank; None leaves the choice to the user's environment or to torchrun. cores: the CPUs of each local
    rank; empty if ranks are not pinned. variables: to be added to the ranks' environment. reasons: sentences to print.
    """

    threads: int | None
    cores: tuple[tuple[int, ...], ...]
    variables: Mapping[str, str]
    reasons: tuple[str, ...]


MOST_RANKS_PER_CPU = 128
"""Ranks per CPU; a larger number is a slip of the hand, because each rank takes a process and tens of megabytes."""


def plausible(ranks: int, budget: Budget, option: str = "-n") -> None:
    """Raise ValueError with one sentence for more ranks than anybody would start on these CPUs."""
    most = MOST_RANKS_PER_CPU * len(budget.affinity)
    if ranks > most:
        cpus = f"{len(budget.affinity)} CPU{'' if len(budget.affinity) == 1 else 's'}"
        raise ValueError(f"{option} {ranks}: did you mean so many? With {cpus}, at most {most} ranks start here")


def plan_resources(
    ranks: int | None,
    budget: Budget,
    environ: Mapping[str, str],
    *,
    threads: int | None = None,
    pin: bool = False,
    divided: Sequence[Partition] = (),
) -> Resources:
    """Share the CPUs among `ranks` ranks of this machine; None means that torchrun will decide the number of ranks.

    environ: the user's environment, whose settings take precedence; a reason says so. threads: the user's choice per
    rank; variables that are set take precedence over it too. divided: how each rank will divide its CPUs, if `--cores`
    asks for that.

    Raises ValueError if `pin` is set and a rank would get no CPU of its own.
    """
    if ranks is None:
        if pin:
            raise ValueError("--pin needs a number of ranks (-n 4), not a name that torchrun resolves later")
        return Resources(None, (), {}, ("threads: left to torchrun, which decides how many ranks there are",))
    computing = [one.threads for one in divided if one.threads is not None]
    fitting = min(computing) if computing else max(1, int(budget.cpus / ranks))
    chosen = threads if threads is not None else fitting
    variables = thread_variables(chosen, environ)
    kept = [f"{name}={environ[name]}" for name in THREAD_VARIABLES if name in environ]
    cores = share(budget.affinity, ranks) if pin else ()
    if pin and not cores:
        raise ValueError(f"--pin needs a CPU for each rank: {ranks} ranks, {len(budget.affinity)} CPUs")

    source = "--threads" if threads is not None else "--cores" if computing else _why(ranks, budget)
    if "OMP_NUM_THREADS" in environ:
        thread_reason = f"threads: {', '.join(kept)} kept as you set it" + (
            f" (--threads {threads} ignored)" if threads is not None else ""
        )
    else:
        thread_reason = f"threads: {chosen} per rank ({source})" + (f"; {', '.join(kept)} kept" if kept else "")
    core_reason = (
        "cores: " + " | ".join(ranges(own) for own in cores) + " (--pin)"
        if cores
        else "cores: divided by each rank, as rank 0 will say (--cores)"
        if divided
        else "cores: not pinned, " + _why_unpinned(ranks, budget)
    )
    return Resources(None if "OMP_NUM_THREADS" in environ else chosen, cores, variables, (thread_reason, core_reason))


def of_machine(budget: CpuBudget, ranks: range, world: int) -> CpuBudget:
    """Return the part of these CPUs that a machine of a lab has. The machines share them in proportion to their ranks.

    ranks: those of the machine, of `world` ranks in all.
    """
    count = len(budget.affinity)
    first, last = (count * place // world for place in (ranks.start, ranks.stop))
    own = budget.affinity[first : max(last, first + 1)]
    quota = None if budget.quota is None else budget.quota * len(ranks) / world
    cpus = budget.cpus * len(ranks) / world
    return CpuBudget(cpus, own, quota, f"{cpus:g} of {budget.cpus:g} CPUs, which the machines of the lab share")


def share(cpus: Sequence[int], ranks: int) -> tuple[tuple[int, ...], ...]:
    """Cut the CPUs into one run of consecutive numbers per rank, with sizes that differ by at most one.

    Returns an empty tuple if there are fewer CPUs than ranks.
    """
    if len(cpus) < ranks:
        return ()
    ordered = sorted(cpus)
    ends = [len(ordered) * rank // ranks for rank in range(ranks + 1)]
    return tuple(tuple(ordered[begin:end]) for begin, end in pairwise(ends))


def _why(ranks: int, budget: Budget) -> str:
    limit = f"cgroup quota {budget.quota:g}" if budget.quota is not None else "no cgroup quota"
    noun = "rank" if ranks == 1 else "ranks"
    return f"{ranks} {noun} on {budget.cpus:g} CPUs: affinity {ranges(budget.affinity)}, {limit}"


def _why_unpinned(ranks: int, budget: Budget) -> str:
    if ranks > budget.cpus:
        return "ranks share CPUs and the kernel balances them"
    shares = share(budget.affinity, ranks)
    if not shares or (budget.quota is not None and budget.quota < len(budget.affinity)):
        return "the quota lets the kernel choose among all CPUs"
    shown = [ranges(own) for own in shares[:2]] + (["…"] if len(shares) > 2 else [])
    return f"--pin would give each rank its own ({' | '.join(shown)})"
