"""What is told of ranks on other machines, whatever they answer."""

from __future__ import annotations

import json
import random
import zlib
from base64 import b64encode

import pytest

from paceline.monitor.far_ranks import FarRanks
from paceline.observe.trace import far
from paceline.observe.trace.asking import Silence
from paceline.observe.trace.listener import Name

HERE = Name(0, 7, 0, 100)
DEADLINE = 60.0
MOST = 1000
"""Bytes of the longest answer that is decoded."""


class Links:
    """Carries the questions between the ranks `a` and `b`, who read at once, and `asleep`, who does not."""

    def __init__(self, reads: bool = True) -> None:
        self.reads = reads
        self.number = 0
        self.others: dict[str, tuple[FarRanks, Links]] = {}
        self.asked: list[tuple[int, int, bytes]] = []
        self.answered: dict[str, tuple[int, bytes]] = {}
        self.answers_to: list[tuple[int, int, bytes]] = []
        self.gone: set[str] = set()
        self.unsent = 0

    def ask(self, words: str) -> int:
        self.number += 1
        for who, (rank, links) in self.others.items():
            self.answered.setdefault(who, (0, b""))
            if links.reads:
                links.asked.append((0, self.number, words.encode()))
                rank.serve(lambda question, who=who: f"{question} of {who}".encode())
                (_, number, content), links.answers_to = links.answers_to[0], []
                self.answered[who] = number, content
        return self.number

    def answers(self) -> list[tuple[str, int, bool, bytes]]:
        return [(who, number, who in self.gone, content) for who, (number, content) in self.answered.items()]

    def questions(self) -> list[tuple[int, int, bytes]]:
        asked, self.asked = self.asked, []
        return asked

    def answer(self, peer: int, number: int, content: bytes) -> None:
        self.answers_to.append((peer, number, content))

    def flush(self, peer: int) -> bool:
        self.unsent -= self.unsent > 0
        return not self.unsent

    def questions_descriptor(self) -> int:
        return -1


def here(**reads: bool) -> FarRanks:
    """A rank with others on other machines, rank 1 and upwards, of which some read questions."""
    mine = Links()
    for who, one_reads in reads.items():
        links = Links(one_reads)
        mine.others[who] = FarRanks(links, lambda _: None), links
    return FarRanks(mine, lambda who: (1 + list(reads).index(who), 1))


def test_each_answers_or_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = here(a=True, asleep=False, b=True)
    _answer_by(monkeypatch, lambda words: str(gateway.ask()).encode() if words == "far" else gateway.answers())
    found, silent = far.ask(HERE, bytes.decode, 0.2, MOST)
    assert found == {1: "figures of a", 3: "figures of b"}
    assert silent == {2: "asleep did not answer within 0.2 s: it is stopped, or its program lets nothing run"}
    assert far.ask(HERE, bytes.decode, 0.2, MOST)[0] == found, "an answer counts for its own question alone"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is not shown, as it is longer than 1048576 bytes"),
        (b"nonsense", "is not compressed"),
        (zlib.compress(b"x" * (MOST + 1)), f"is longer than {MOST} bytes"),
        (zlib.compress(b"\xff"), "is 'utf-8' codec"),
    ],
)
def test_what_a_rank_sent_wrongly_is_said_of_it_alone(
    content: bytes, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"1": ("a", 5, b64encode(content).decode()), "2": ("b", 5, b64encode(zlib.compress(b"right")).decode())}
    _answer_by(monkeypatch, lambda words: b"5" if words == "far" else json.dumps(answers).encode())
    found, silent = far.ask(HERE, bytes.decode, 10, MOST)
    assert found == {2: "right"}
    assert list(silent) == [1]
    assert silent[1].startswith(f"a sent something that {why}")


@pytest.mark.parametrize("answer", [b"[]", b'{"1": 2}', b'{"x": ["a", 5, ""]}', b"{"])
def test_nothing_is_known_through_a_rank_that_answers_wrongly(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer_by(monkeypatch, lambda words: b"5" if words == "far" else answer)
    assert far.ask(HERE, bytes.decode, 10, MOST) == ({}, {})


def test_who_was_asked_looks_more_often() -> None:
    links = Links()
    rank = FarRanks(links, lambda _: None)
    assert 1 < rank.serve(str.encode) < 60, "also where nobody is warned of stalls"
    links.asked = [(3, 1, b"figures"), (4, 2, b"secrets")]
    assert 0 < rank.serve(str.encode) < 1
    assert links.answers_to == [(3, 1, zlib.compress(b"figures", 1))], "no other question has an answer"
    assert 0 < rank.serve(str.encode) < 1


def test_figures_that_are_too_long_are_not_sent() -> None:
    links = Links()
    links.asked = [(3, 1, b"figures")]
    incompressible = random.Random(1).randbytes(far.LONGEST_ANSWER + 1000)
    FarRanks(links, lambda _: None).serve(lambda _: incompressible)
    assert links.answers_to == [(3, 1, b"")]


def _answer_by(monkeypatch: pytest.MonkeyPatch, answer) -> None:
    """Let the rank on this machine answer so."""

    def question(name, words, decode, seconds, max_bytes):
        assert name == HERE
        try:
            return decode(answer(words))
        except ValueError as error:
            return Silence(name, f"sent something that is {error}")

    monkeypatch.setattr(far, "question", question)


def test_ranks_that_are_gone_answer_no_more_but_have_last_words() -> None:
    mine = Links()
    mine.answered = {"a": (3, b"of a"), "b": (2, b"of b")}
    mine.gone = {"b"}
    both = FarRanks(mine, lambda who: (1 if who == "a" else 2, 1))
    assert json.loads(both.answers()) == {"1": ["a", 3, b64encode(b"of a").decode()]}
    assert both.newest() == {1: (3, b"of a"), 2: (2, b"of b")}


def test_who_leaves_answers_the_newest_question_again_until_it_is_sent() -> None:
    links = Links()
    rank = FarRanks(links, lambda _: None)
    links.asked = [(3, 7, b"report")]
    rank.serve(lambda question: f"{question} so far".encode())
    links.unsent = 2
    rank.leave(b"all", str.encode, lambda: False, DEADLINE)
    assert links.unsent == 0
    assert links.answers_to == [(3, 7, zlib.compress(b"report so far", 1)), (3, 7, zlib.compress(b"all", 1))]
    links.asked = [(3, 8, b"report")]
    rank.serve(str.encode)
    assert links.answers_to[-1] == (3, 8, zlib.compress(b"all", 1)), "nothing older comes after its last words"


def test_who_leaves_waits_for_a_question_unless_nobody_makes_a_report_any_more() -> None:
    links = Links()
    rank = FarRanks(links, lambda _: None)
    looked: list[bool] = []

    def is_gone() -> bool:
        looked.append(True)
        if len(looked) == 2:
            links.asked = [(3, 1, b"report")]
        return False

    rank.leave(b"all", str.encode, is_gone, DEADLINE)
    assert links.answers_to == [(3, 1, zlib.compress(b"all", 1))]
    FarRanks(Links(), lambda _: None).leave(b"all", str.encode, lambda: True, DEADLINE)
