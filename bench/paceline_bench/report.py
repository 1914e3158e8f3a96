"""The results of a benchmark, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import median, quantiles

from rich.table import Table

from paceline.lab.lab import Traffic
from paceline.plan.bound import bound
from paceline.topology import Topology
from paceline_bench import bandwidth, row
from paceline_bench.interleave import Measured, Work
from paceline_bench.ranks import case, pattern
from paceline_bench.table import Column, column, columns
from paceline_bench.table import table as made


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """One system at one size. Bandwidths are in 10^9 bytes/s, times in µs; q1 and q3 are quartiles of the time.

    asked: the algorithm that the system was told to use, "default" if it chooses; `algorithm` is the one it used.
    codec: the one that encoded the data between machines, None without --codecs; bytes, bandwidths and T* are those of
    the data before they are encoded.
    bytes_per_link: in a lab, the bytes that one call sends over each uplink towards the parent and from it, by the
    kernel's counters; headers and the benchmark's own barrier are included. link_efficiency: the share of their rates
    that the lab's links carried as iperf3's payload in this run; None without such a link or without iperf3. bound_us:
    T*, the time that no all-reduce between the lab's machines can beat at what their links carried.
    """

    op: str = field(metadata=column("redop"))
    asked: str = "default"
    codec: str | None = field(default=None, metadata=column("codec"))
    machines: int
    time_us_q1: float
    time_us_q3: float
    algbw_gbps: float = field(metadata=column("algbw", "{:.3f}"))
    busbw_gbps: float = field(metadata=column("busbw(GB/s)", "{:.3f}"))
    bytes_per_link: dict[str, dict[str, int]] = field(default_factory=dict)
    link_efficiency: float | None = None
    bound_us: float | None = field(
        default=None, metadata=column("of T*", lambda bound, time: f"{time / bound:.3f}", "time_us")
    )

    @property
    def told(self) -> str:
        """The algorithm, after what the system was told to use if that is something else."""
        return self.algorithm if self.asked in ("default", self.algorithm) else f"{self.asked}: {self.algorithm}"


@dataclass(frozen=True)
class Place:
    """The machines that were measured on. link_efficiency: see `Row`."""

    topology: Topology | None = None
    link_efficiency: float | None = None

    @property
    def machines(self) -> int:
        """The number of machines."""
        return sum(1 for _ in self.topology.machines()) if self.topology else 1

    def bound(self, collective: str, nbytes: int) -> float | None:
        """Return T* in seconds for a collective on `nbytes` bytes, None if it is not known."""
        if self.topology is None or self.link_efficiency is None or collective != "all_reduce":
            return None
        return bound(self.topology, nbytes).seconds / self.link_efficiency


HERE = Place()


def figures(one: Measured, work: Work, place: Place = HERE) -> Row:
    """Return the row of one measured system."""
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
        codec=system.codec or None,
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
    """Return the medians over the rounds."""
    return {
        link[0].name: {"up": round(median(one.up for one in link)), "down": round(median(one.down for one in link))}
        for link in zip(*rounds, strict=True)
    }


def best(rows: Sequence[Row]) -> list[Row]:
    """Return the fastest row of each system per size, and all rows with wrong results.

    A system that was told to use several algorithms or codecs counts as several systems.
    """
    fastest: dict[tuple[str | int | None, ...], Row] = {}
    for one in rows:
        kept = fastest.setdefault(_key(one), one)
        if one.time_us < kept.time_us:
            fastest[_key(one)] = one
    return [one for one in rows if one.wrong or fastest[_key(one)] is one]


def _key(one: Row) -> tuple[str | int | None, ...]:
    return one.system, one.path, one.asked, one.codec, one.buffer, one.bytes


def ratio(one: Row, rows: Sequence[Row], peer: str) -> float | None:
    """Return how many times faster a row is than `peer` at the same size, None without such a row."""
    for other in rows:
        if other.system == peer and other.bytes == one.bytes and one.system != peer and one.time_us > 0:
            return other.time_us / one.time_us
    return None


def table(rows: Sequence[Row], root: int) -> Table:
    """Return a table with the columns of nccl-tests, the system, the CPU time, and the ratio to each peer."""
    peers = list(dict.fromkeys(row.system for row in rows if row.system != "paceline"))
    return made(
        columns(
            Row,
            "bytes",
            Column("count", lambda row: str(_count(row))),
            *("dtype", "op"),
            Column("root", lambda row: str(root) if row.collective in ("broadcast", "reduce") else "-1"),
            *("system", "path"),
            Column("algorithm", name="told", left=True),
            *(["codec"] if any(row.codec for row in rows) else []),
            *("buffer", "time_us", "cpu_us", "algbw_gbps", "busbw_gbps", "wrong"),
            *(["bound_us"] if any(row.bound_us for row in rows) else []),
            *(Column(f"vs {peer}", partial(_ratio, rows=rows, peer=peer)) for peer in peers),
        ),
        rows,
        section=lambda row: row.bytes,
        bold=lambda row: row.system == "paceline",
    )


def _ratio(one: Row, rows: Sequence[Row], peer: str) -> str:
    found = ratio(one, rows, peer)
    return "" if found is None else f"{found:.2f}×"


def _count(one: Row) -> int:
    count = one.bytes // pattern.storage(one.dtype).itemsize
    return count // one.ranks if one.collective in ("all_gather", "reduce_scatter", "all_to_all") else count
