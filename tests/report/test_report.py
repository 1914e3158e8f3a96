"""The report of a run: complete when all ranks end, prompt and honest when one is gone."""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jobs import PROGRAMS, job
from rich.console import Console

from paceline.formats import numbers
from paceline.launch.local import LocalJob
from paceline.observe.figures import Figures, Group
from paceline.observe.report import make, read, to_json
from paceline.observe.stragglers import arrived_last
from paceline.observe.trace.clocks import Clocks, Meeting
from paceline.report.show import show

WATCHED = PROGRAMS / "watched_job.py"


def run(tmp_path: Path, ranks: int, what: str, place: str, deadline: float = 60) -> str:
    """The report job's rank 0's words on stderr."""
    output = tmp_path / "output"
    output.mkdir()
    with job(ranks, WATCHED, "40", "-", what, output=output, env={"PACELINE_REPORT": place}) as running:
        code = running.wait(deadline)
    assert (code == 0) == (what == "end"), (output / "rank-0.err").read_text()
    return (output / "rank-0.err").read_text()


def test_every_rank_is_in_it(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    run(tmp_path, 3, "end", str(path))
    report = read(path)
    assert (report.size, report.missing, [rank.figures.rank for rank in report.ranks]) == (3, {}, [0, 1, 2])
    for rank in report.ranks:
        assert rank.figures.steps == 40
        assert rank.figures.requests == 40 * 12
        assert (rank.figures.unseen, rank.figures.passed) == (0, 0)
        assert rank.figures.counters["issued"] == 40 * 12
        assert rank.figures.exposed_ns > 0
    shares = [rank.last.share for rank in report.ranks if rank.last]
    assert sum(shares) + report.ranks[0].last.untold == pytest.approx(1)
    assert shares[2] > 0.5, "it sleeps before each step"
    assert max(report.ranks[2].last.tensors.values()) >= 20


def test_tables_on_stderr(tmp_path: Path) -> None:
    text = run(tmp_path, 2, "end", "-").replace("\n", " ")
    assert "2 ranks on 1 machine, " in text and "40 steps" in text
    for word in ("exposed", "negotiation", "oversleep", "arrived last", "layer", "A step takes"):
        assert word in text
    assert "gave no figures" not in text


def test_a_rank_that_was_killed_is_named_and_delays_nobody(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    run(tmp_path, 3, "kill", str(path), deadline=250)
    report = read(path)
    assert [rank.figures.rank for rank in report.ranks if rank.figures.final] == [0, 1]
    assert "rank 2 (" in {**report.missing, **report.cut}[2], "a slow machine has asked it before"
    out = StringIO()
    show(report, "", Console(file=out, width=1000))
    assert next(remark for remark in report.remarks if "rank 2" in remark.lower()) in out.getvalue()


def test_a_rank_that_is_stopped_costs_seconds(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    env = {**os.environ, "PACELINE_REPORT": str(path)}
    output = tmp_path / "output"
    output.mkdir()
    program = """
import os, signal, sys, numpy as np, paceline
group = paceline.init()
array = np.ones(8, np.float32)
for _ in range(50):
    group.all_reduce(array)
if group.rank == 1:
    print(os.getpid(), flush=True)
    os.kill(os.getpid(), signal.SIGSTOP)
group.close()
"""
    with LocalJob(2, [sys.executable, "-c", program], env, threads=1, output=output) as job:
        job.processes[0].wait(60)  # it needs five seconds, and ends
        assert job.poll() is None
        report = read(path)
        os.kill(int((output / "rank-1.out").read_text()), signal.SIGKILL)
        job.wait(30)
    assert [rank.figures.rank for rank in report.ranks if rank.figures.final] == [0]
    assert "rank 1 (" in {**report.missing, **report.cut}[1]
    assert report.ranks[0].figures.operations == 50


def figures(rank: int, arrivals: list[Meeting], host: str = "host", size: int = 3, **more: object) -> Figures:
    groups = {5: Group("group 0", size)}
    return Figures(rank, size, host, 100 + rank, 0, 10**9, arrivals=tuple(arrivals), groups=groups, **more)  # type: ignore[arg-type]


@given(
    st.lists(st.permutations([0, 1, 2]), min_size=1, max_size=30), st.integers(-(10**13), 10**13), st.integers(0, 300)
)
def test_who_was_last_is_told_from_the_calls_of_all_ranks(orders: list[list[int]], ahead: int, error: int) -> None:
    """Ranks 1 and 2 are on a machine whose clock is ahead by anything; how far is known within `error` us."""
    arrivals: list[list[Meeting]] = [[], [], []]
    for number, order in enumerate(orders):
        for place, rank in enumerate(order):
            begin = 10_000_000 * number + 1_000_000 * place + (ahead if rank else 0)
            arrivals[rank].append(Meeting(5, number, begin, begin + 5_000_000))
    told = Clocks("a", {"b": (ahead - 1000 * error, ahead + 1000 * error)})
    found = arrived_last([
        figures(rank, ones, clocks=told if rank == 0 else Clocks("b")) for rank, ones in enumerate(arrivals)
    ])  # fmt: skip
    for rank in range(3):
        assert found[rank].share == sum(order[-1] == rank for order in orders) / len(orders)
        assert found[rank].late_ms is None or found[rank].late_ms == pytest.approx(1, abs=0.61)
        assert (found[rank].untold, found[rank].count) == (0, len(orders))


def test_what_cannot_be_told_apart_is_not_put_on_anybody() -> None:
    """Ranks 1 and 2 are always late, by 5 and 6 ms, on machines whose clocks are known within 12 ms and 10 us."""
    late = [[Meeting(5, n, 10**9 * n + by, 10**9 * n + 10**8) for n in range(4)] for by in (0, 5_000_000, 6_000_000)]
    known = Clocks("a", {"b": (-12_000_000, 12_000_000), "c": (-10_000, 10_000)})
    found = arrived_last([
        figures(rank, ones, clocks=known if rank == 0 else Clocks("abc"[rank])) for rank, ones in enumerate(late)
    ])  # fmt: skip
    assert [(one.share, one.untold, one.count) for one in found.values()] == [(0, 1, 4)] * 3
    assert found[0].within_ms == pytest.approx(12.01)
    out = StringIO()
    made = make([figures(r, m, clocks=known if r == 0 else Clocks("abc"[r])) for r, m in enumerate(late)], {})
    show(made, "", Console(file=out, width=200))
    assert "within 12 ms, not told apart" in out.getvalue()
    assert arrived_last([figures(r, m, clocks=Clocks("abc"[r])) for r, m in enumerate(late[:1] * 3)])[0].untold == 1


def test_named_tensors_are_told_by_when_they_were_submitted() -> None:
    """Each rank's machine has a clock of its own. Rank 1 is late with `w` alone; collectives of other groups say
    nothing where there are names."""
    ahead = (0, 10**12, -(10**12))
    told = Clocks("a", {"b": (ahead[1] - 5, ahead[1] + 5), "c": (ahead[2] - 5, ahead[2] + 5)})
    found = arrived_last([
        figures(
            rank,
            [
                Meeting(5, n, 10**9 * n + ahead[rank] + (80_000_000 if late == rank else 0), 0, name)
                for n in range(10)
                for name, late in (("w", 1), ("b", n % 3))
            ],
            clocks=told if rank == 0 else Clocks("abc"[rank]),
        )
        for rank in range(3)
    ])  # fmt: skip
    assert [found[rank].share for rank in range(3)] == [4 / 20, 13 / 20, 3 / 20]
    assert found[1].tensors == {"w": 10, "b": 3}
    assert found[1].late_ms == pytest.approx(80)


def test_it_says_how_many_ranks_are_elsewhere() -> None:
    out = StringIO()
    show(
        make([figures(1, [], elsewhere=1), figures(0, [], elsewhere=2)], {2: "it died"}),
        "network-bound",
        Console(file=out, width=200),
    )
    assert out.getvalue().startswith("3 ranks on several machines, 1 s, ")


def test_a_collective_that_not_all_have_shown_says_nothing() -> None:
    meeting = Meeting(5, 0, 0, 10)
    assert arrived_last([figures(0, [meeting]), figures(1, [meeting])]) == {}


def test_only_calls_since_the_last_look_count_if_there_are_any() -> None:
    first = [Meeting(5, 0, 0, 10), Meeting(5, 1, 100, 110)]
    late = [Meeting(5, 0, 5, 10), Meeting(5, 1, 95, 110)]
    before = {rank: replace(figures(rank, [ones[0]], size=2), time_ns=50) for rank, ones in enumerate((first, late))}
    after = [figures(rank, ones, size=2) for rank, ones in enumerate((first, late))]
    assert [one.share for one in arrived_last(after).values()] == [0.5, 0.5]
    assert [one.share for one in arrived_last(after, before).values()] == [1, 0]
    assert [one.share for one in arrived_last(after, {one.rank: one for one in after}).values()] == [0.5, 0.5]


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = make([figures(1, []), figures(0, [Meeting(5, 0, 1, 2)])], {2: "it died"})
    path = tmp_path / "r.json"
    path.write_text(to_json(report))
    back = read(path)
    assert json.loads(to_json(back)) == json.loads(to_json(report))
    assert [rank.figures.rank for rank in back.ranks] == [0, 1]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "paceline trace 2"}', "\xff"])
def test_another_file_is_refused_in_one_sentence(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(ValueError, match="is not a Paceline report"):
        read(path)
    path.write_text(json.dumps({**json.loads(to_json(make([], {}))), "format": "paceline report 9"}))
    with pytest.raises(ValueError, match="has the format 'paceline report 9'"):
        read(path)


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "1" + "0" * 30])
def test_a_report_with_a_number_that_nothing_can_be_reckoned_with_is_refused(number: str, tmp_path: Path) -> None:
    text = to_json(make([figures(0, [])], {}))
    (tmp_path / "r.json").write_text(text.replace('"size": 1,', f'"size": {number},'))
    words = rf"r\.json is not a Paceline report: {number[:40]} (is not a finite number|has more than 64 bits)"
    with pytest.raises(ValueError, match=words):
        read(tmp_path / "r.json")


@given(st.floats(-1e15, 1e15))
def test_numbers_keep_three_digits_and_no_power_of_ten(value: float) -> None:
    text = numbers.number(value)
    if abs(value) >= 1e-4:
        assert "e" not in text
    assert float(text.replace(" ", "")) == pytest.approx(value, rel=0.006, abs=1e-300)


def test_units() -> None:
    assert [numbers.size(v) for v in (None, 0, 999, 1000, 1_234_567, 10**12)] == [
        "–", "0 B", "999 B", "1 kB", "1.23 MB", "1 TB",
    ]  # fmt: skip
    assert (numbers.percent(0.9912), numbers.percent(None)) == ("99.1 %", "–")
