"""Divide a rank's CPUs among its engine, its input workers and its computing threads: pure functions.

Static partitioning is Horovod-SCP's idea: S. Pumma et al., "Alleviating Load Imbalance in Data Processing for
Large-Scale Deep Learning", CCGRID 2020, section IV-C. Its shortcoming is a core that idles while the engine does.
Adaptive partitioning avoids it: compute may use the engine's core too, and the engine's thread, which has no other core
and mostly sleeps, comes first there when it wakes up.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from paceline.calibration import cpu as fitted
from paceline.cpu.budget import CpuBudget, ranges

MODES = ("static", "adaptive", "off")
_PARTS = ("engine", "input", "compute")
_EXAMPLE = "engine=0,input=1,compute=2-7"


@dataclass(frozen=True, slots=True)
class Parts:
    """The CPU numbers of each part of a rank, ascending. The threads of an empty part are not pinned."""

    engine: tuple[int, ...] = ()
    input: tuple[int, ...] = ()
    compute: tuple[int, ...] = ()

    @property
    def cpus(self) -> tuple[int, ...]:
        """The CPUs of all parts, ascending."""
        return tuple(sorted({*self.engine, *self.input, *self.compute}))

    def __str__(self) -> str:
        shown = (f"{part} {ranges(getattr(self, part))}" for part in _PARTS if getattr(self, part))
        return ", ".join(shown) or "nothing is pinned"


@dataclass(frozen=True, slots=True)
class Wish:
    """The wish of `--cores` or PACELINE_CORES: a mode, or explicit parts for each rank of a machine in turn."""

    mode: str = "off"
    explicit: tuple[Parts, ...] = ()


OFF = Wish()


@dataclass(frozen=True, slots=True)
class Partition:
    """The decision for one rank.

    parts: the CPUs of each part. threads: the number of threads that compute should use, None for no advice. reason:
    one sentence.
    """

    parts: Parts
    threads: int | None
    reason: str


UNDIVIDED = Partition(Parts(), None, "it was not asked for")


def parse(text: str) -> Wish:
    """Return what the text asks for: a mode, or CPUs for each part, such as `engine=0,input=1,compute=2-7`.

    A semicolon separates the CPUs of the ranks of a machine. Raises ValueError, whose message follows the text.
    """
    if text in MODES:
        return Wish(text)
    return Wish("explicit", tuple(_parts(one) for one in text.split(";")))


def partition(
    asked: Wish, mine: CpuBudget, cores: Sequence[Sequence[int]], ranks: Sequence[frozenset[int]], place: int
) -> Partition:
    """Return the parts of one rank.

    mine: the CPUs that this rank may use. cores: its affinity as physical cores, SMT siblings together, neighbours
    beside each other, as `physical_cores` returns it. ranks: the affinities of all ranks of this machine, of which this
    is number `place`. Raises ValueError for explicit CPUs that this rank may not use.
    """
    if asked.mode == "off":
        return UNDIVIDED
    if asked.mode == "explicit":
        return _explicit(asked, mine, place)
    sharing = [number for number, other in enumerate(ranks) if other & frozenset(mine.affinity)]
    union = frozenset(mine.affinity).union(*(ranks[number] for number in sharing))
    if mine.quota is not None and mine.quota < len(union):
        threads = max(1, int(mine.quota / len(sharing)) - 1)
        reason = (
            f"a cgroup quota of {mine.quota:g} CPUs' time on {len(union)} CPUs, which others use too: nothing is pinned"
        )
        return Partition(Parts(), threads, f"{reason}, and compute leaves one CPU's time to the engine and to input")
    if any(ranks[number] != frozenset(mine.affinity) for number in sharing):
        return Partition(
            Parts(), None, "this rank may use other CPUs than those it shares them with: nothing is pinned"
        )
    own, whole = _share(cores, len(sharing), sharing.index(place)), _cores(len(cores))
    if len(own) < 2:
        shared = f"{len(sharing)} ranks share {whole}" if len(sharing) > 1 else f"there is {whole}"
        return Partition(Parts(), None, f"{shared}, and a rank needs two to be divided: nothing is pinned")
    parts, reason = _divided(own, asked.mode == "adaptive")
    which = f"{_cores(len(own))} of {whole}, for one of {len(sharing)} ranks" if len(sharing) > 1 else whole
    return Partition(parts, len(parts.compute), f"{which}{reason}")


def _divided(own: Sequence[Sequence[int]], adaptive: bool) -> tuple[Parts, str]:
    """Give compute the first cores and the engine the last, as programs that pin themselves use the lowest cores."""
    separate = len(own) >= fitted.SEPARATE_INPUT
    inputs = max(1, (len(own) - 1) // fitted.INPUT_SHARE) if separate else 0
    first_input = len(own) - 1 - inputs
    engine = tuple(own[-1])
    reason = "" if separate else "; the engine, which mostly sleeps, shares one with input workers"
    compute = _flat(own[:first_input])
    if adaptive:
        compute = tuple(sorted((*compute, *engine)))
        reason += "; while it sleeps, compute uses the engine's too"
    return Parts(engine, _flat(own[first_input:-1]) if separate else engine, compute), reason


def _explicit(asked: Wish, mine: CpuBudget, place: int) -> Partition:
    parts = asked.explicit[place % len(asked.explicit)]
    missing = set(parts.cpus) - set(mine.affinity)
    if missing:
        noun = "CPU" if len(missing) == 1 else "CPUs"
        raise ValueError(
            f"--cores, PACELINE_CORES: {noun} {ranges(tuple(missing))} cannot be used here: the affinity of this rank "
            f"(taskset, numactl, the batch system) is {ranges(mine.affinity)}"
        )
    return Partition(parts, len(parts.compute) or None, "as you said")


def _parts(text: str) -> Parts:
    found: dict[str, list[str]] = {}
    part = ""
    for item in text.split(","):
        name, assigned, cpus = item.rpartition("=")
        if assigned:
            part = name.strip()
            if part in found:
                raise ValueError(f"says {part}= twice; write it as in {_EXAMPLE}")
        if part not in _PARTS:
            raise ValueError(f"should be one of {', '.join(MODES)}, or CPUs such as {_EXAMPLE}")
        found.setdefault(part, []).append(cpus)
    return Parts(**{part: _cpus(items) for part, items in found.items()})


def _cpus(items: Sequence[str]) -> tuple[int, ...]:
    found: set[int] = set()
    for item in items:
        match = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5}))?\s*", item)
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"has {item.strip()!r}, which is no range of CPUs; write them as in {_EXAMPLE}")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return tuple(sorted(found))


def _share(cores: Sequence[Sequence[int]], ranks: int, place: int) -> Sequence[Sequence[int]]:
    """The run of neighbouring cores of the rank at `place`; the runs of all ranks differ in length by at most one."""
    ends = list(pairwise(len(cores) * rank // ranks for rank in range(ranks + 1)))
    begin, end = ends[place]
    return cores[begin:end]


def _flat(cores: Sequence[Sequence[int]]) -> tuple[int, ...]:
    return tuple(sorted(cpu for core in cores for cpu in core))


def _cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"
