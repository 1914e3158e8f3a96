"""The timeline's file: whole JSON after every write, bounded memory, ticks of the other ranks."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_ins import FakeCoordinator, FakeEngine, FakeRecord, operation

from paceline.observe.annotations import Annotations
from paceline.observe.json_stream import Stream
from paceline.observe.observer import Observer
from paceline.observe.submissions import Submissions, decode
from paceline.observe.timeline import Timeline
from paceline.observe.trace.listener import Listener, Name
from paceline.observe.trace.request import wall_ns

JOB = 2**61 + os.getpid()
"""Another run of these tests at the same time has a job of its own."""


@settings(max_examples=40)
@given(
    batches=st.lists(st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5)), max_size=4))
)
def test_the_file_is_whole_after_every_write(tmp_path_factory: pytest.TempPathFactory, batches: list) -> None:
    path = tmp_path_factory.mktemp("stream") / "t.json"
    stream, written = Stream(str(path)), []
    assert json.loads(path.read_text()) == []
    for batch in batches:
        stream.write(batch)
        written += batch
        assert json.loads(path.read_text()) == written
    stream.close()


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nowhere"):
        Stream(str(tmp_path / "nowhere" / "t.json"))


class Rank:
    """Rank 1 of the job: answers what it is asked."""

    def __init__(self, observer: Observer) -> None:
        self.ready = Submissions(observer)
        self.listener = Listener(Name(os.geteuid(), JOB, 1, os.getpid()))
        self.asked = threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        while self.listener.serve(self._answer, None):
            pass

    def _answer(self, question: str) -> bytes:
        word, moment = question.split()
        assert word == "ready"
        self.asked.release()
        return self.ready.since(int(moment))

    def close(self) -> None:
        self.listener.stop()
        self.thread.join(20)
        self.listener.close()


@pytest.fixture
def others() -> Iterator[tuple[Rank, FakeCoordinator]]:
    source = FakeCoordinator()
    rank = Rank(Observer(FakeEngine(), lambda: {9: source}, dict, Annotations(int), 1, 2))
    yield rank, source
    rank.close()


def test_phases_ticks_and_operations(
    tmp_path: Path, others: tuple[Rank, FakeCoordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    ahead = wall_ns()
    monkeypatch.setattr("paceline.observe.observer.wall_ns", lambda: ahead)  # somebody may set the clock meanwhile
    other, theirs = others
    engine, mine = FakeEngine(rows=[operation(1)]), FakeCoordinator()
    mine.add(FakeRecord("before", submitted_ns=1, negotiated_ns=2, done_ns=3))
    observer = Observer(engine, lambda: {9: mine}, dict, Annotations(int), 0, 2)
    path = tmp_path / "timeline.json"
    timeline = Timeline(str(path), observer, Name(os.geteuid(), JOB, 0, os.getpid()), mark_cycles=True)
    now = timeline._origin - ahead
    for number in (1, 2):
        begin = now + number * 1_000_000
        record = FakeRecord("w", "all_reduce", 8, number, begin, begin + 50_000, 0, 0, begin + 90_000)
        mine.add(record)
        theirs.add(record._replace(submitted_ns=begin + 40_000, last=True))
    engine.rows.append(operation(2, begin_ns=timeline._origin + 5_000_000))
    assert other.asked.acquire(timeout=20)
    timeline.close()
    records = json.loads(path.read_text())
    assert records[0]["args"]["start_time_since_epoch_in_micros"] == timeline._origin // 1000
    names = [record["name"] for record in records]
    assert names.count("NEGOTIATE_ALLREDUCE") == names.count("ALLREDUCE") == names.count("PACELINE_ALLREDUCE") == 2
    assert names.count("all_reduce") == 1  # of the ring; what ended before is no part of it
    assert names.count("CYCLE_START") == 2
    assert not any(record["ph"] == "M" and record["args"].get("name") == "before" for record in records)
    ticks = [(r["name"], round(r["ts"], -1)) for r in records if r["name"] in "01" and r["ph"] == "X"]
    assert ticks == [("0", 1000.0), ("1", 1040.0), ("0", 2000.0), ("1", 2040.0)]
    assert (records, timeline.close()) == (json.loads(path.read_text()), None)


def test_what_ends_a_little_later_on_another_rank_has_its_tick_too(
    tmp_path: Path, others: tuple[Rank, FakeCoordinator], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rank 1 has ended one of two requests when it is asked for the first time, as the timeline ends."""
    monkeypatch.setattr("paceline.observe.timeline._LAST_PATIENCE", 20.0)
    monkeypatch.setattr("paceline.observe.timeline._SECONDS", 60.0)
    other, theirs = others
    mine, since = FakeCoordinator(), other.ready.since
    observer = Observer(FakeEngine(), lambda: {9: mine}, dict, Annotations(int), 0, 2)
    timeline = Timeline(str(tmp_path / "t.json"), observer, Name(os.geteuid(), JOB, 0, os.getpid()))
    begin = timeline._origin - wall_ns()
    first, second = (FakeRecord("w", "all_reduce", 8, number, begin, begin, 0, 0, begin + 9) for number in (1, 2))
    mine.add(first, second)
    theirs.add(first)

    def answer(moment: int) -> bytes:
        found = since(moment)
        if len(theirs.ended) == 1:
            theirs.add(second)
        return found

    monkeypatch.setattr(other.ready, "since", answer)
    timeline.close()
    records = json.loads((tmp_path / "t.json").read_text())
    assert [record["name"] for record in records if record["name"] in "01"] == ["0", "1"] * 2


def test_a_disk_that_becomes_full_ends_the_timeline_with_one_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = FakeEngine()
    observer = Observer(engine, dict, dict, Annotations(int), 0, 2)
    timeline = Timeline(str(tmp_path / "t.json"), observer, Name(os.geteuid(), JOB, 0, os.getpid()))
    tried = threading.Semaphore(0)

    def full(*arguments: object) -> int:
        tried.release()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    for number in range(2):
        engine.rows.append(operation(number + 1, begin_ns=timeline._origin + 5_000_000))
    assert tried.acquire(timeout=20)
    timeline.close()
    assert [record.message for record in caplog.records] == [
        f"the timeline {tmp_path / 't.json'} is not complete: No space left on device"
    ]


def test_ready_gives_what_ended_since(others: tuple[Rank, FakeCoordinator]) -> None:
    other, theirs = others
    shift = wall_ns()
    theirs.add(FakeRecord("a", batch=1, submitted_ns=10, done_ns=1000), FakeRecord("b", submitted_ns=5, done_ns=10**12))
    found = decode(other.ready.since(shift + 10**11))
    assert [(one.channel, one.name) for one in found] == [(9, "b")]
    for wrong in (b"", b"{}}", b"[[1]]", b'[["x",1,"a",2]]', b"7"):
        with pytest.raises(ValueError, match=r"^not a list of submissions"):
            decode(wrong)
