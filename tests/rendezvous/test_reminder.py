"""A meeting that somebody is missing from is not silent until it fails."""

from __future__ import annotations

import logging
import re
import secrets
import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from rendezvous_fakes import FakeArena, FakeNative, good, in_threads, process, settings

from paceline.errors import RendezvousError
from paceline.rendezvous import Meeting, meet, open_store, reminder
from paceline.rendezvous.assembly import Assembly
from paceline.rendezvous.deadline import Deadline
from paceline.rendezvous.meet import _introduction
from paceline.rendezvous.reminder import Reminder
from paceline.rendezvous.store import MemoryStore, Store

STALL = 0.02
DEADLINE = 20.0


class Said(logging.Handler):
    """What was warned of, and a wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.threads: list[int] = []
        """Which thread gave each of these warnings."""
        self.changed = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self.changed:
            self.lines.append(record.getMessage())
            self.threads.append(threading.get_ident())
            self.changed.notify_all()

    def wait_for(self, words: str) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: any(words in line for line in self.lines), DEADLINE), self.lines


@pytest.fixture
def said() -> Iterator[Said]:
    handler = Said()
    reminder.log.addHandler(handler)
    yield handler
    reminder.log.removeHandler(handler)


def join(store: Store, rank: int, size: int, seconds: float = DEADLINE) -> Meeting:
    return meet(
        store,
        rank,
        size,
        seconds,
        process=process(host=f"node{rank}"),
        settings=settings(rank, size, stall_seconds=STALL),
        native=FakeNative(),
        arena=FakeArena().descriptor,
        linked=(),
        used=set(),
    )


def late(said: Said, words: str, then: Callable[[], Meeting]) -> Meeting:
    said.wait_for(words)
    return then()


def close(meetings: list[Meeting]) -> None:
    for meeting in meetings:
        for link in meeting.links.values():
            link.close()


@pytest.mark.parametrize("missing", [0, 1])
def test_who_is_missing_is_said_and_then_comes(said: Said, missing: int) -> None:
    store = MemoryStore()
    others = [rank for rank in range(3) if rank != missing]
    here = ", ".join(f"rank {rank} on node{rank}" for rank in others)
    words = f"2/3 joined, missing rank {missing} (joined: {here})"
    calls = [partial(join, store, rank, 3) for rank in others]
    close(good(in_threads([*calls, partial(late, said, words, partial(join, store, missing, 3))])))
    assert all(line.startswith("stalled ") for line in said.lines)
    assert not any("did not answer" in line for line in said.lines)


def test_every_rank_names_who_keeps_all_from_going_on(said: Said) -> None:
    """Not rank 0, which waits as well. Until rank 1 has come that far, rank 0 names it, too."""
    store, silent = MemoryStore(), threading.Event()
    ranks = dict[int, int]()

    def rank(number: int) -> None:
        ranks[threading.get_ident()] = number
        one = Assembly(store, number, 3, Deadline(DEADLINE), STALL, "a store")
        me = _introduction(number, 3, process(host=f"node{number}"), settings(number, 3))
        one.introduce(me, set(), lambda members: {})
        one.settle("meeting")
        if number == 2:
            assert silent.wait(DEADLINE)
        one.gather("doors", {})

    def blaming() -> list[tuple[int, str]]:
        lines = [re.sub(r"pid \d+", "pid", line.partition(": ")[2]) for line in said.lines]
        return [
            (ranks[thread], line) for thread, line in zip(said.threads, lines, strict=True) if "said nothing" in line
        ]

    def speak() -> None:
        alone = "rank 2 (host node2, pid) joined, but then said nothing"
        with said.changed:
            assert said.changed.wait_for(lambda: {(0, alone), (1, alone)} <= set(blaming()), DEADLINE), said.lines
        silent.set()

    good(in_threads([*(partial(rank, number) for number in range(3)), speak]))
    assert not any("rank 0" in line for _, line in blaming())


def test_in_a_large_job_rank_0_alone_looks_for_everybody(said: Said) -> None:
    store = MemoryStore()
    with pytest.raises(
        RendezvousError, match=r"^rank 0 has not joined within 0.05 s \(rank 70 on node70 of 100 ranks\)"
    ):
        join(store, 70, 100, 0.05)


def test_who_finds_no_store_says_so(said: Said) -> None:
    job = secrets.token_hex(8)
    alone = [settings(rank, 2, local_size=2, job=job, stall_seconds=STALL) for rank in range(2)]

    def client() -> None:
        open_store(alone[1], DEADLINE).close()

    def server() -> None:
        said.wait_for("cannot reach the store of rank 0 from this machine: unix @paceline-store-")
        open_store(alone[0], DEADLINE).close()

    good(in_threads([client, server]))
    assert "nobody there" in said.lines[0]


def test_it_comes_again_when_the_wait_has_doubled(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 109.0, 110.0, 111.0, 119.0, 120.0, 135.0, 141.0, 142.0])
    monkeypatch.setattr(reminder.time, "monotonic", lambda: next(clock))
    one = Reminder(10)
    for _ in range(8):
        one.check(lambda: "nobody comes")
    assert said.lines == [f"stalled {seconds} s: nobody comes" for seconds in (10, 20, 41)]


def test_the_first_comes_after_five_seconds(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 104.9, 105.0])
    monkeypatch.setattr(reminder.time, "monotonic", lambda: next(clock))
    one = Reminder()
    for _ in range(2):
        one.check(lambda: "nobody comes")
    assert said.lines == ["stalled 5 s: nobody comes"]


def test_never_is_never(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    one = Reminder(0)
    monkeypatch.setattr(reminder.time, "monotonic", lambda: 1e12)
    one.check(lambda: "nobody comes")
    assert said.lines == []
