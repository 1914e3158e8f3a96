"""When a rank warns of an operation that waits, and in which words."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from paceline.monitor.source_line import users_line
from paceline.monitor.stalls import Stalls


class Engine:
    """Says that it waits for what the test puts here."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self.lines: list[str] = []
        self.notes: dict[int, str] = {}

    def waits(self) -> list[Any]:
        return self.waiting

    def annotate(self, operation: int, words: str) -> None:
        self.notes[operation] = words

    def tell_line(self, line: str) -> None:
        self.lines.append(line)


def wait(
    operation: int, seconds: float, *missing: tuple[Any, ...], thread: int = 0, left: float = 1e6
) -> tuple[Any, ...]:
    named = [(*one, "", 0.0)[:4] for one in missing]
    return (operation, seconds, left, thread, f"all_reduce #{operation} float32[4] SUM", named)


@pytest.fixture
def engine() -> Engine:
    return Engine()


def test_it_warns_once_and_then_at_doubling_intervals(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    stalls = Stalls(engine, "rank 0", 60.0, 1800.0)
    warned = []
    for seconds in [1.0, 59.9, 60.0, 61.0, 119.0, 120.5, 200.0, 1000.0, 1919.0, 1920.0]:
        engine.waiting = [wait(7, seconds, ("rank 1", ""))]
        caplog.clear()
        assert stalls.check() is not None
        warned += [seconds] * len(caplog.records)
    assert warned == [60.0, 120.5, 1000.0, 1920.0]


def test_it_looks_again_when_something_can_be_due(engine: Engine) -> None:
    stalls = Stalls(engine, "rank 0", 60.0, 1800.0)
    assert stalls.check() == 20.0
    engine.waiting = [wait(1, 59.5), wait(2, 10.0)]
    assert stalls.check() == 0.5
    engine.waiting = [wait(1, 60.5), wait(2, 43.0)]
    assert stalls.check() == 17.0
    engine.waiting = [wait(1, 110.0)]
    assert stalls.check() == 10.0
    engine.waiting = [wait(3, 1.0, left=12.0)]
    assert stalls.check() == 7.0


def test_another_operation_is_warned_of_anew(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    stalls = Stalls(engine, "rank 0", 60.0, 1800.0)
    for operation in (1, 2):
        engine.waiting = [wait(operation, 70.0)]
        stalls.check()
    assert len(caplog.records) == 2


def test_zero_seconds_is_never(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.waiting = [wait(1, 1e6)]
    assert Stalls(engine, "rank 0", 0.0, 1800.0).check() == 600.0
    assert not caplog.records


def test_the_sentence(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    last = "all_reduce #1579 float32[4096] SUM"
    missing = [("rank 5 (host b, pid 9)", last), ("rank 6 (host b, pid 10)", "")]
    engine.waiting = [wait(1580, 60.04, *missing, thread=threading.get_ident())]
    Stalls(engine, "rank 0 (host a, pid 8)", 60.0, 1800.0).check()
    (record,) = caplog.records
    assert record.levelname == "WARNING" and record.name == "paceline"
    text, _, line = record.getMessage().rpartition(" waits at ")
    assert text == (
        "stalled 60 s: all_reduce #1580 float32[4] SUM; missing rank 5 (host b, pid 9), last heard of in "
        f"{last} and rank 6 (host b, pid 10), not heard of yet; rank 0 (host a, pid 8)"
    )
    # This test's own file, called by the test framework: the innermost frame outside of Paceline.
    assert line.rpartition(":")[0].endswith("test_stalls.py")


def test_many_missing_ranks_are_counted(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.waiting = [wait(1, 60.0, *[(f"rank {rank}", "") for rank in range(1, 100)])]
    Stalls(engine, "rank 0", 60.0, 1800.0).check()
    assert "rank 4, not heard of yet and 95 more; " in caplog.text
    assert "rank 5" not in caplog.text


def test_where_the_missing_ranks_are_is_asked_elsewhere(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever is asked may be asking, too: the thread that answers does not wait."""
    engine.waiting = [wait(1, 60.0, ("rank 1", "all_gather #3"), ("rank 2", ""))]
    answered = threading.Event()

    def whereabouts(who: str) -> str:
        assert answered.wait(20)
        return "now at train.py:7" if who == "rank 1" else ""

    Stalls(engine, "rank 0", 60.0, 1800.0, whereabouts).check()
    assert not caplog.records
    answered.set()
    for thread in threading.enumerate():
        if thread.name == "paceline-stall":
            thread.join(20)
    words = "; missing rank 1, last heard of in all_gather #3, now at train.py:7 and rank 2, not heard of yet; "
    assert words in caplog.text


def test_a_missing_rank_may_have_said_where_it_is(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.waiting = [wait(1, 60.0, ("rank 1", "all_gather #3", "train.py:7", 12.34), ("rank 2", "", "", 0.0))]
    Stalls(engine, "rank 0", 60.0, 1800.0).check()
    assert "; missing rank 1, last heard of in all_gather #3, 12.3 s ago at train.py:7 and rank 2, not" in caplog.text


def test_who_waits_for_nothing_says_where_it_is(engine: Engine) -> None:
    stalls = Stalls(engine, "rank 0", 60.0, 1800.0)
    assert stalls.check() == 20.0
    (line,) = engine.lines
    assert line.isascii() and line.rpartition(":")[0] == users_line().rpartition(":")[0] != ""
    engine.waiting = [wait(1, 50.0)]
    assert stalls.check() == 10.0 and len(engine.lines) == 1


def test_where_operations_may_take_less_it_says_so_more_often(engine: Engine) -> None:
    assert Stalls(engine, "rank 0", 60.0, 3.0).check() == 1.0


def test_where_the_ranks_are_is_noted_once_before_the_deadline(engine: Engine) -> None:
    stalls = Stalls(engine, "rank 0", 60.0, 20.0)
    missing = [("rank 1", "", "train.py:7", 3.0), ("rank 2", "")]
    engine.waiting = [wait(1, 14.0, *missing, left=6.0)]
    assert stalls.check() == 1.0 and not engine.notes
    for left in (4.9, 4.0):
        engine.waiting = [wait(1, 20.0 - left, *missing, left=left, thread=threading.get_ident())]
        stalls.check()
    words, _, line = engine.notes[1].rpartition(" waits at ")
    assert words == "4.9 s before: rank 1, 3 s ago at train.py:7; rank 0"
    assert line.rpartition(":")[0].endswith("test_stalls.py")


def test_of_a_short_wait_it_is_noted_in_its_second_half(engine: Engine) -> None:
    stalls = Stalls(engine, "rank 0", 60.0, 2.0)
    engine.waiting = [wait(1, 0.9, left=1.1)]
    assert stalls.check() == pytest.approx(0.1) and not engine.notes
    engine.waiting = [wait(1, 1.1, left=0.9)]
    stalls.check()
    assert engine.notes[1].startswith("0.9 s before: the main thread of rank 0 is at ")


def test_nobody_waits_for_it_yet(engine: Engine, caplog: pytest.LogCaptureFixture) -> None:
    engine.waiting = [wait(1, 60.0)]
    Stalls(engine, "rank 0", 60.0, 1800.0).check()
    assert "; any rank could end it; the main thread of rank 0 is at " in caplog.text
