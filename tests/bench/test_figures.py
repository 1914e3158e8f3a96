"""Sizes, bandwidths and ratios: the arithmetic of the tables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from paceline.formats.sizes import parse_bytes
from paceline.lab.lab import Traffic, switched
from paceline.topology import Link
from paceline_bench import bandwidth, report, sizes
from paceline_bench.interleave import Effort, Interleaved, Work
from paceline_bench.ranks.program import Rank
from paceline_bench.systems import System


@pytest.mark.parametrize(
    ("text", "expected"),
    [("8", 8), ("1K", 1024), ("64M", 64 << 20), ("2GiB", 2 << 30), ("1.5k", 1536), (" 512B ", 512), ("4MB", 4 << 20)],
)
def test_a_size_is_read_as_people_write_it(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "M", "-8", "8X", "64 MegaB", "1e6", "0x10"])
def test_a_size_that_cannot_be_read_says_what_would_be_right(text):
    with pytest.raises(ValueError, match="such as 64M"):
        parse_bytes(text)


@pytest.mark.parametrize("size", [1, 8, 1023, 1024, 3 << 10, 64 << 20, 5 << 30])
def test_a_shown_size_reads_back(size):
    assert parse_bytes(sizes.show(size)) == size


def test_the_sweep_includes_both_ends():
    assert sizes.sweep(8, 4096, 8) == [8, 64, 512, 4096]
    assert sizes.sweep(8, 4095, 8) == [8, 64, 512, 4095]
    assert sizes.sweep(8, 64 << 20, 8)[-3:] == [2 << 20, 16 << 20, 64 << 20]
    assert sizes.sweep(8, 8, 2) == [8]
    assert sizes.sweep(1, 4, 1.5) == [1, 2, 3, 4]


@pytest.mark.parametrize(("begin", "end", "factor"), [(8, 64, 1), (64, 8, 2), (0, 8, 2), (8, 64, -2)])
def test_a_sweep_that_goes_nowhere_is_refused(begin, end, factor):
    with pytest.raises(ValueError, match="must be above"):
        sizes.sweep(begin, end, factor)


@pytest.mark.parametrize(
    ("size", "dtype", "collective", "ranks", "expected"),
    [
        (8, "float32", "all_reduce", 4, 2),
        (8, "float64", "all_reduce", 4, 1),
        (1, "float32", "all_reduce", 4, 1),
        (7, "bfloat16", "broadcast", 2, 3),
        (64, "float32", "all_gather", 4, 16),
        (100, "float32", "reduce_scatter", 3, 24),
        (8, "float32", "all_to_all", 4, 4),
        (64, "float32", "barrier", 4, 0),
    ],
)
def test_every_rank_gets_whole_elements(size, dtype, collective, ranks, expected):
    assert sizes.elements(size, dtype, collective, ranks) == expected


@pytest.mark.parametrize(
    ("collective", "two", "four"),
    [
        ("all_reduce", 1.0, 1.5),
        ("all_gather", 0.5, 0.75),
        ("reduce_scatter", 0.5, 0.75),
        ("all_to_all", 0.5, 0.75),
        ("broadcast", 1.0, 1.0),
        ("reduce", 1.0, 1.0),
        ("sendrecv", 1.0, 1.0),
        ("barrier", 0.0, 0.0),
    ],
)
def test_bus_bandwidth_is_that_of_nccl_tests(collective, two, four):
    assert bandwidth.bus_factor(collective, 2) == two
    assert bandwidth.bus_factor(collective, 4) == four


def test_algorithm_bandwidth_is_in_decimal_gigabytes():
    assert bandwidth.algorithm_bandwidth(64 << 20, 0.01) == pytest.approx(6.7108864)
    assert bandwidth.algorithm_bandwidth(0, 0.0) == 0.0


def row(system, path, size, time_us, wrong=0, algorithm="default"):
    return report.Row(
        collective="all_reduce",
        algorithm=algorithm,
        system=system,
        path=path,
        dtype="float32",
        op="sum",
        bytes=size,
        ranks=2,
        machines=1,
        buffer="any",
        time_us=time_us,
        time_us_q1=time_us,
        time_us_q3=time_us,
        cpu_us=time_us,
        algbw_gbps=1.0,
        busbw_gbps=1.0,
        wrong=wrong,
        iterations=10,
    )


class OneRank:
    """A session of one rank whose every call sends 100 bytes, and is told what the program of real ranks does."""

    system, ranks = System("counting", "engine", ""), 1
    rank, size = 0, 1

    def __init__(self):
        self.sent = 0
        self._program = Rank()
        self._program._adapter = self

    def ask(self, **order):
        return [self._program.answer(order)]

    def bind(self, case, source, target):
        return self.send

    def send(self):
        self.sent += 100

    def memory(self, size):
        return np.zeros(size, np.uint8)

    def barrier(self):
        pass

    def algorithm(self):
        return "none"


@pytest.mark.parametrize("calls", [1, 9, 10, 25])
def test_bytes_per_call_count_the_calls_that_are_not_timed(calls):
    session = OneRank()
    interleaved = Interleaved(
        [session], Effort(rounds=3, calls=calls), pytest.fail, lambda: [Traffic("a", session.sent, 0)]
    )
    (measured,) = interleaved.measure(Work("all_reduce", "float32", "sum", 4), lambda done: None)
    assert measured.carried == [[Traffic("a", 100, 0)]] * 3
    assert measured.timed == 3 * calls


class Changing(OneRank):
    """Its calls take as long as the next of `times` says, and in the end the last one."""

    def __init__(self, times):
        super().__init__()
        self.times, self.bursts = times, []

    def ask(self, **order):
        if order["do"] != "burst":
            return super().ask(**order)
        once = self.times[min(len(self.bursts), len(self.times) - 1)]
        self.bursts.append(order["calls"])
        return [{"seconds": once * order["calls"], "cpu_seconds": 0.0, "calls": order["calls"]}]


@pytest.mark.parametrize("then", [1e-5, 1e-1])
def test_bursts_are_as_long_as_is_aimed_at_also_where_calls_become_quicker_or_slower(then):
    session = Changing([1e-3, 1e-3, then])
    Interleaved([session], Effort(rounds=3, burst=0.05), pytest.fail).measure(
        Work("all_reduce", "float32", "sum", 4), lambda done: None
    )
    assert session.bursts == [1, 5, 50, *[max(1, round(0.05 / then))] * 2]


def test_the_ratio_compares_at_the_same_size_and_not_with_itself():
    rows = [row("paceline", "engine", 8, 2.0), row("gloo", "torch", 8, 50.0), row("gloo", "torch", 64, 60.0)]
    assert report.ratio(rows[0], rows, "gloo") == 25.0
    assert report.ratio(rows[1], rows, "gloo") is None
    assert report.ratio(rows[0], rows, "mpich") is None


def test_of_a_systems_settings_the_best_row_is_kept_at_each_size():
    rows = [
        row("paceline", "engine", 8, 2.0),
        row("intelmpi", "mpi4py", 8, 1.5, algorithm="default"),
        row("intelmpi", "mpi4py", 8, 1.0, algorithm="11"),
        row("intelmpi", "mpi4py", 8, 1.2, algorithm="14"),
        row("intelmpi", "mpi4py", 64, 4.0, algorithm="default"),
        row("intelmpi", "mpi4py", 64, 5.0, algorithm="11"),
    ]
    assert report.best(rows) == [rows[0], rows[2], rows[4]]


def test_each_algorithm_that_was_asked_for_keeps_its_row():
    rows = [replace(row("paceline", "engine", 8, time), asked=name) for name, time in (("ring", 2.0), ("leaders", 1.0))]
    assert report.best(rows) == rows


def test_each_codec_keeps_its_row_and_is_named_in_the_table():
    plain = row("paceline", "engine", 8, 2.0)
    rows = [replace(plain, codec=name, time_us=time) for name, time in (("none", 2.0), ("bf16", 1.0))]
    assert report.best(rows) == rows
    (column,) = (column for column in report.table(rows, root=0).columns if column.header == "codec")
    assert [*column.cells] == ["none", "bf16"]
    assert "codec" not in [column.header for column in report.table([plain], root=0).columns]


def test_beside_a_bound_the_table_says_how_far_it_is():
    rows = [replace(row("paceline", "engine", 8, 3.0), bound_us=2.0), row("gloo", "torch", 8, 50.0)]
    table = report.table(rows, root=0)
    column = next(column for column in table.columns if column.header == "of T*")
    assert [*column.cells] == ["1.500", ""]


def test_the_bound_is_that_of_the_links_true_speed():
    place = report.Place(switched([1, 2], Link(1e6, 1e6)), 0.5)
    assert place.machines == 2
    assert place.bound("all_reduce", 1_000_000) == 2.0
    assert place.bound("broadcast", 1_000_000) is None
    assert report.HERE.bound("all_reduce", 8) is None


def test_a_slow_row_with_wrong_results_is_kept():
    rows = [row("intelmpi", "mpi4py", 8, 1.0), row("intelmpi", "mpi4py", 8, 2.0, wrong=1)]
    assert report.best(rows) == rows


def test_the_table_has_the_columns_of_nccl_tests():
    table = report.table([row("paceline", "engine", 8, 2.0), row("gloo", "torch", 8, 50.0, wrong=3)], root=0)
    titles = [str(column.header) for column in table.columns]
    assert titles[:5] == ["size(B)", "count", "type", "redop", "root"]
    assert titles[9:] == ["time(us)", "cpu(us)", "algbw", "busbw(GB/s)", "#wrong", "vs gloo"]
    assert [*table.columns[-1].cells] == ["25.00×", ""]
    assert [*table.columns[-2].cells] == ["0", "[red]3[/red]"]
