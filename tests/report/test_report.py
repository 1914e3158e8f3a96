"""The report of a run: complete when all ranks end, prompt and honest when one is gone."""

from __future__ import annotations

import json
import os
import signal
import sys
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
from paceline.observe.trace.clocks import Meeting
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
    assert sum(shares) == pytest.approx(1)
    assert shares[2] > 0.5, "it sleeps before each step"
    assert max(report.ranks[2].last.tensors.values()) >= 20


def test_tables_on_stderr(tmp_path: Path) -> None:
    text = run(tmp_path, 2, "end", "-").replace("\n", " ")
    assert "2 ranks, " in text and "40 steps" in text
    for word in ("exposed", "negotiation", "oversleep", "arrived last", "layer", "A step takes"):
        assert word in text
    assert "gave no figures" not in text


def test_a_rank_that_was_killed_is_named_and_delays_nobody(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    run(tmp_path, 3, "kill", str(path), deadline=250)
    report = read(path)
    assert [rank.figures.rank for rank in report.ranks] == [0, 1]
    assert "rank 2 (" in report.missing[2]
    out = StringIO()
    show(report, "", Console(file=out, width=200))
    assert "rank 2 gave no figures: " in out.getvalue()


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
    assert [rank.figures.rank for rank in report.ranks] == [0]
    assert "rank 1 (" in report.missing[1]
    assert report.ranks[0].figures.operations == 50


def figures(rank: int, arrivals: list[Meeting], host: str = "host", **more: object) -> Figures:
    groups = {5: Group("group 0", 3)}
    return Figures(rank, 3, host, 100 + rank, 0, 10**9, arrivals=tuple(arrivals), groups=groups, **more)  # type: ignore[arg-type]


@given(st.lists(st.permutations([0, 1, 2]), min_size=1, max_size=30), st.integers(-(10**9), 10**9))
def test_who_was_last_is_told_from_the_calls_of_all_ranks(orders: list[list[int]], ahead: int) -> None:
    """Ranks 1 and 2 are on a machine whose clock is ahead by anything."""
    arrivals: list[list[Meeting]] = [[], [], []]
    for number, order in enumerate(orders):
        for place, rank in enumerate(order):
            begin = 10_000_000 * number + 1_000_000 * place + (ahead if rank else 0)
            end = 10_000_000 * number + 2_001_000 + (ahead if rank else 0)
            arrivals[rank].append(Meeting(5, number, begin, end))
    found = arrived_last([figures(rank, ones, f"host {min(rank, 1)}") for rank, ones in enumerate(arrivals)])
    # The clocks are known to within a microsecond only if each machine was the last one once.
    if {min(order[-1], 1) for order in orders} == {0, 1}:
        for rank in range(3):
            assert found[rank].share == sum(order[-1] == rank for order in orders) / len(orders)
            assert found[rank].late_ms is None or abs(found[rank].late_ms - 1) < 0.01
    assert sum(one.share for one in found.values()) == pytest.approx(1)


def test_it_says_how_many_ranks_are_elsewhere() -> None:
    out = StringIO()
    show(
        make([figures(1, [], elsewhere=1), figures(0, [], elsewhere=2)], {2: "it died"}),
        "network-bound",
        Console(file=out, width=200),
    )
    assert out.getvalue().startswith("3 ranks, 2 of 3 ranks are on other machines than rank 0, 1 s, ")


def test_a_collective_that_not_all_have_shown_says_nothing() -> None:
    meeting = Meeting(5, 0, 0, 10)
    assert arrived_last([figures(0, [meeting]), figures(1, [meeting])]) == {}


def test_ranks_that_noticed_it_themselves_are_believed() -> None:
    meeting = Meeting(5, 0, 0, 10)
    before = {0: figures(0, [], last_count=90), 1: figures(1, [], last_count=10)}
    after = [figures(0, [meeting], last_count=91), figures(1, [meeting], last_count=13, last={"w": 13})]
    assert {rank: last.share for rank, last in arrived_last(after).items()} == {0: 91 / 104, 1: 13 / 104}
    assert {rank: last.share for rank, last in arrived_last(after, before).items()} == {0: 0.25, 1: 0.75}
    assert arrived_last(after)[1].tensors == {"w": 13}


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = make([figures(1, []), figures(0, [Meeting(5, 0, 1, 2)], last_count=3, last={"w": 3})], {2: "it died"})
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
