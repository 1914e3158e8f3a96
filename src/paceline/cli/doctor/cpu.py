"""CPUs: how many may be used, how ranks would wait on them, and how many threads they would start."""

import os

from paceline.cli.doctor.finding import Environment, Finding
from paceline.cpu.budget import available, physical_cores, ranges, sessions_are_grouped, spin_budget
from paceline.cpu.cgroup import read_file
from paceline.cpu.partition import Wish, partition
from paceline.cpu.pinning import thread_advice
from paceline.formats.numbers import in_full
from paceline.launch.threads import THREAD_VARIABLES


def cpus(here: Environment) -> Finding:
    """Report the CPU affinity and the cgroup quota."""
    budget = available()
    advice = ""
    if budget.quota is not None and budget.quota < len(budget.affinity):
        advice = (
            f"the quota stops all ranks when {budget.quota:g} CPUs' worth of time is used up; "
            "whole CPUs (a cpuset, docker --cpuset-cpus) give steadier steps than a quota"
        )
    quota = "none" if budget.quota is None else f"{budget.quota:g}"
    return Finding(
        "CPUs", f"{budget.cpus:g} (affinity {ranges(budget.affinity)}, quota {quota})", budget.reason, advice
    )


def waiting(here: Environment) -> Finding:
    """Report up to how many ranks a waiting rank spins."""
    budget = available()
    ranks = max(1, int(budget.cpus))
    fits = spin_budget(budget, [frozenset(budget.affinity)] * (ranks - 1), here.settings.spin_us)
    if here.settings.spin_us is not None:
        return Finding("waiting", f"spins {in_full(fits.microseconds)} µs, yields, then sleeps", fits.reason)
    few = f"up to {ranks} rank{'s' if ranks > 1 else ''}"
    value = f"{few}: spins {in_full(fits.microseconds)} µs, yields, then sleeps; more: does not spin"
    return Finding("waiting", value, "a rank that spins without a CPU of its own slows the rank that it waits for")


def sessions(here: Environment) -> Finding:
    """Report whether ranks that outnumber the CPUs can yield to each other."""
    if not sessions_are_grouped(read_file):
        return Finding("sessions", "do not matter", "the kernel shares the CPUs between processes, whatever session")
    apart = here.settings.rank_variable is not None and os.getsid(0) == os.getpid()
    return Finding(
        "sessions",
        "matter" if not apart else "matter, and this rank has one of its own",
        "the kernel shares the CPUs between sessions (kernel.sched_autogroup_enabled): ranks that outnumber the CPUs "
        "hand them to each other within a session only; paceline run starts its ranks in one, torchrun does not",
        "start the ranks with paceline run" if apart else "",
    )


def threads(here: Environment) -> Finding:
    """Report the thread counts that numeric libraries would use."""
    found = [f"{name}={here.environ[name]}" for name in THREAD_VARIABLES if name in here.environ]
    if found:
        return Finding("threads", ", ".join(found), "set in the environment; paceline run keeps them")
    return Finding(
        "threads",
        "no limit set",
        "each rank's numeric libraries start a thread per CPU",
        "start with paceline run, which sets CPUs / ranks, or set OMP_NUM_THREADS yourself",
    )


def division(here: Environment) -> Finding:
    """Report how a rank's CPUs are divided among engine, input workers and compute."""
    budget, ranks = available(), here.settings.local_size or 1
    affinity = frozenset(budget.affinity)
    asked = here.settings.cores.mode != "off"
    wish = here.settings.cores if asked else Wish("static")
    place = here.settings.local_rank
    found = partition(wish, budget, physical_cores(affinity), [affinity] * ranks, place)
    rank = f"local rank {place} of {ranks}"
    if not asked:
        reason = f"paceline run --cores static would give {rank}: {found.parts} ({found.reason})"
        return Finding("cores", "not divided: engine, input workers and compute share them", reason)
    return Finding("cores", f"{rank}: {found.parts}", found.reason, thread_advice(found, here.settings.thread_count))
