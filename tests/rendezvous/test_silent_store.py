"""A store that falls silent while ranks meet is waited for until the limit, and said to be silent."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from functools import partial

import pytest
from meeting_ranks import TIMEOUT, Rank, close
from rendezvous_fakes import good, in_threads

from paceline.errors import RendezvousError
from paceline.rendezvous import bounded, introduction, records
from paceline.rendezvous.store import MemoryStore


class Silent:
    """A store like torch's, whose requests take no deadline, and which answers nobody after some of them."""

    def __init__(self, answers: int) -> None:
        self.store, self.answers, self.over = MemoryStore(), answers, threading.Event()

    def set(self, key: str, value: bytes) -> None:
        self.asked()
        self.store.set(key, value)

    def get(self, key: str) -> bytes:
        self.asked()
        return self.store.get(key)

    def check(self, keys: list[str]) -> bool:
        self.asked()
        return self.store.check(keys)

    def asked(self) -> None:
        self.answers -= 1
        if self.answers < 0:
            self.over.wait()


@pytest.mark.parametrize("ranks", [(0, 1), (0,), (1,)])
@pytest.mark.parametrize("answers", [0, 1, 2, 5])
def test_a_store_that_falls_silent_is_named_at_the_limit(
    answers: int, ranks: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (introduction, records):
        monkeypatch.setattr(module, "LAST_WORDS", 0.1)
    store = Silent(answers)
    try:
        for error in in_threads([partial(Rank().meet, store, rank, 2, 0.3) for rank in ranks]):
            assert isinstance(error, RendezvousError), error
            assert "the store that the ranks meet through does not answer within 0.3 s" in str(error)
    finally:
        store.over.set()
        for thread in threading.enumerate():
            if thread.name == "paceline-store":
                thread.join(TIMEOUT)


def test_ranks_say_that_a_store_is_silent_and_go_on_when_it_answers(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "_SLICE", 0.05)
    store = Silent(2)

    def answers_then(record: logging.LogRecord) -> bool:
        if "the store that the ranks meet through does not answer" in record.getMessage():
            store.over.set()
        return True

    caplog.handler.addFilter(answers_then)
    ranks = [Rank(stall_seconds=0.1) for _ in range(2)]
    close(good(in_threads([partial(rank.meet, store, number, 2) for number, rank in enumerate(ranks)])))
    assert store.over.is_set()


GIVEN_UP = """
import threading, time
from paceline.errors import RendezvousError
from paceline.rendezvous.bounded import Answers
from paceline.rendezvous.deadline import Deadline

ending = threading.Event()
threading._register_atexit(ending.set)

def call():
    ending.wait()
    time.sleep(0.2)
    print("returned", flush=True)

try:
    Answers("the store", None).await_(call, Deadline(0.05))
except RendezvousError as error:
    print(error, flush=True)
"""


def test_a_call_that_was_given_up_returns_before_the_interpreter_ends() -> None:
    """Within torch that would abort the process."""
    done = subprocess.run([sys.executable, "-c", GIVEN_UP], capture_output=True, text=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("the store does not answer within 0.05 s")
    assert done.stdout.endswith("\nreturned\n")
