"""What a person reads and what a program reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from rich.table import Table

from paceline.bench import bandwidth, row
from paceline.bench.interleave import Measured, Work
from paceline.bench.ranks import case, pattern
from paceline.lab.lab import Traffic
from paceline.plan.bound import bound
from paceline.topology import Topology


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """One system at one size. q1, q3: quartiles of the time. bandwidths: 10^9 bytes/s.

    asked: the algorithm that the system was told to use, "default" where it chooses; `algorithm` is what it used.
    bytes_per_link: in a lab, what one call sends over each uplink towards the parent and from it, by the kernel's
    counters, headers and the benchmark's own barrier included. link_efficiency: the share of their rates that the
    lab's links carried as iperf3's payload in this run; None where there is no such link, or no iperf3.
    bound_us: T*, what no all-reduce between the lab's machines can beat at what their links carried.
    """

    op: str
    asked: str = "default"
    machines: int
    time_us_q1: float
    time_us_q3: float
    algbw_gbps: float
    busbw_gbps: float
    bytes_per_link: dict[str, dict[str, int]] = field(default_factory=dict)
    link_efficiency: float | None = None
    bound_us: float | None = None


@dataclass(frozen=True)
class Place:
    """The machines that were measured on. link_efficiency: as in a row."""

    topology: Topology | None = None
    link_efficiency: float | None = None

    @property
    def machines(self) -> int:
        """How many there are."""
        return sum(1 for _ in self.topology.machines()) if self.topology else 1

    def bound(self, collective: str, nbytes: int) -> float | None:
        """T* in seconds, None where it is not known."""
        if self.topology is None or self.link_efficiency is None or collective != "all_reduce":
            return None
        return bound(self.topology, nbytes).seconds / self.link_efficiency


HERE = Place()


def figures(one: Measured, work: Work, place: Place = HERE) -> Row:
    """The figures of one measured system."""
    system, ranks = one.session.system, one.session.ranks
    size = work.elements * pattern.storage(work.dtype).itemsize
    seconds = median(one.times)
    first, _, third = quantiles(one.times, n=4, method="inclusive")
    least = place.bound(work.collective, size)
    speed = bandwidth.algorithm_bandwidth(size, seconds)
    return Row(
        collective=work.collective,
        algorithm=one.algorithm,
        asked=system.asked or "default",
        system=system.name,
        path=system.path,
        dtype=work.dtype,
        op=work.op if work.collective in case.REDUCING else "none",
        bytes=size,
        ranks=ranks,
        machines=place.machines,
        buffer=system.buffer,
        time_us=round(seconds * 1e6, 4),
        time_us_q1=round(first * 1e6, 4),
        time_us_q3=round(third * 1e6, 4),
        cpu_us=round(median(one.cpu) * 1e6, 4),
        algbw_gbps=round(speed, 6),
        busbw_gbps=round(speed * bandwidth.bus_factor(work.collective, ranks), 6),
        bytes_per_link=_per_link(one.carried),
        link_efficiency=_rounded(place.link_efficiency),
        bound_us=_rounded(least and least * 1e6),
        wrong=one.wrong,
        iterations=one.timed,
    )


def _rounded(figure: float | None) -> float | None:
    return None if figure is None else round(figure, 4)


def _per_link(rounds: list[list[Traffic]]) -> dict[str, dict[str, int]]:
    """The medians over the rounds."""
    return {
        link[0].name: {"up": round(median(one.up for one in link)), "down": round(median(one.down for one in link))}
        for link in zip(*rounds, strict=True)
    }


def best(rows: Sequence[Row]) -> list[Row]:
    """Of each system the fastest row per size; one with wrong results is never dropped.

    A system that was told to use several algorithms counts as several.
    """
    fastest: dict[tuple[str, str, str, str, int], Row] = {}
    for one in rows:
        kept = fastest.setdefault(_key(one), one)
        if one.time_us < kept.time_us:
            fastest[_key(one)] = one
    return [one for one in rows if one.wrong or fastest[_key(one)] is one]


def _key(one: Row) -> tuple[str, str, str, str, int]:
    return one.system, one.path, one.asked, one.buffer, one.bytes


def ratio(one: Row, rows: Sequence[Row], peer: str) -> float | None:
    """How many times faster than `peer` at the same size; None where there is no such figure."""
    for other in rows:
        if other.system == peer and other.bytes == one.bytes and one.system != peer and one.time_us > 0:
            return other.time_us / one.time_us
    return None


def table(rows: Sequence[Row], root: int) -> Table:
    """nccl-tests' columns, the system and its buffer, the CPU time, and the ratio to each peer."""
    peers = list(dict.fromkeys(row.system for row in rows if row.system != "paceline"))
    bounds = ["of T*"] if any(row.bound_us for row in rows) else []
    left = ("type", "redop", "system", "path", "algorithm", "buffer")
    plain = (
        "size(B)",
        "count",
        "type",
        "redop",
        "root",
        "system",
        "path",
        "algorithm",
        "buffer",
        "time(us)",
        "cpu(us)",
    )
    result = columns(*plain, "algbw", "busbw(GB/s)", "#wrong", *bounds, *(f"vs {peer}" for peer in peers), left=left)
    for number, one in enumerate(rows):
        ratios = [ratio(one, rows, peer) for peer in peers]
        result.add_row(
            *_nccl_words(one, root),
            one.system,
            one.path,
            one.algorithm if one.asked in ("default", one.algorithm) else f"{one.asked}: {one.algorithm}",
            one.buffer,
            f"{one.time_us:.2f}",
            f"{one.cpu_us:.2f}",
            f"{one.algbw_gbps:.3f}",
            f"{one.busbw_gbps:.3f}",
            wrong(one.wrong),
            *(["" if not one.bound_us else f"{one.time_us / one.bound_us:.3f}"] if bounds else []),
            *("" if value is None else f"{value:.2f}×" for value in ratios),
            style="bold" if one.system == "paceline" else "",
            end_section=number + 1 < len(rows) and rows[number + 1].bytes != one.bytes,
        )
    return result


def columns(*titles: str, left: Sequence[str]) -> Table:
    """A table without rows; those of the titles that are in `left` stand over words, the others over figures."""
    result = Table(box=None, header_style="bold", pad_edge=False)
    for title in titles:
        result.add_column(title, justify="left" if title in left else "right", no_wrap=True)
    return result


def wrong(count: int) -> str:
    """How many results were wrong, in red if any were."""
    return f"[red]{count}[/red]" if count else "0"


def _nccl_words(one: Row, root: int) -> list[str]:
    count = one.bytes // pattern.storage(one.dtype).itemsize
    if one.collective in ("all_gather", "reduce_scatter", "all_to_all"):
        count //= one.ranks
    rooted = one.collective in ("broadcast", "reduce")
    return [str(one.bytes), str(count), one.dtype, one.op, str(root) if rooted else "-1"]
