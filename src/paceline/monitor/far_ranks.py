"""The questions that ranks on different machines ask each other, over the links that they have anyway."""

from __future__ import annotations

import json
import math
import threading
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from paceline.monitor.whereabouts import Locate
from paceline.observe.trace.far import FIGURES, LONGEST_ANSWER, REPORT

_WATCHED = 10.0
"""Seconds after a question in which the next one is expected."""
_LOOK, _SELDOM = 0.25, 20.0
"""Seconds from one look for a question to the next, while one is expected and otherwise: a rank that only computes
reads nothing else."""
_ENDING = 0.01
"""The same while this rank ends."""


class Links(Protocol):
    """The engine, as far as it carries questions; see `paceline._engine.Engine`."""

    def ask(self, words: str, /) -> int:
        """Ask every rank on another machine; return the number of the question."""
        ...

    def answers(self) -> Sequence[tuple[str, int, bool, bytes]]:
        """Return each rank's name among its peers, the number of the question that it answered last, whether it is gone
        by now, and the answer."""
        ...

    def questions(self) -> Sequence[tuple[int, int, bytes]]:
        """Return the questions of other ranks: the peer, the number and the words of each."""
        ...

    def answer(self, peer: int, number: int, content: bytes, /) -> None:
        """Answer a question, perhaps again."""
        ...

    def flush(self, peer: int, /) -> bool:
        """Return whether all that was queued for this peer has been sent, or the peer is gone."""
        ...

    def questions_descriptor(self) -> int:
        """A descriptor that is readable while there are questions."""
        ...


class FarAnswer(NamedTuple):
    """The last answer of a rank on another machine: to which question, and the content."""

    number: int
    content: bytes


class FarRanks:
    """The ranks of the job on other machines. locate: see `Whereabouts`."""

    def __init__(self, links: Links, locate: Locate) -> None:
        self._links, self._locate = links, locate
        self._watched_until = -math.inf
        self._lock = threading.Lock()
        self._reporting: tuple[int, int] | None = None  # the peer that makes the report, and its newest question
        self._last_words: bytes | None = None
        self.descriptor = links.questions_descriptor()
        """It is readable while there is something to `serve`."""

    def ask(self, words: str = FIGURES) -> int:
        """Ask all of them. Returns the number of the question."""
        return self._links.ask(words)

    def answers(self) -> bytes:
        """Return the last answers of those that are there: a JSON object of `[who, number of the question, answer in
        base64]` by rank."""
        found = {}
        for who, number, gone, content in self._links.answers():
            if not gone and (place := self._locate(who)):
                found[place[0]] = who, number, b64encode(content).decode()
        return json.dumps(found).encode()

    def newest(self) -> dict[int, FarAnswer]:
        """Return the last answers, also of ranks that are gone, by rank."""
        found = {}
        for who, number, _, content in self._links.answers():
            if place := self._locate(who):
                found[place[0]] = FarAnswer(number, content)
        return found

    def serve(self, answer: Callable[[str], bytes]) -> float:
        """Answer what they have asked. Returns the seconds after which to look again.

        answer: returns the answer to a question.
        """
        now = time.monotonic()
        with self._lock:
            for peer, number, words in self._links.questions():
                self._watched_until = now + _WATCHED
                question = words.decode("ascii", "replace")
                if question == REPORT:
                    self._reporting = peer, number
                if question in (FIGURES, REPORT):
                    told = self._last_words if question == REPORT else None
                    self._links.answer(peer, number, _packed(answer(question)) if told is None else told)
        return _LOOK if now < self._watched_until else _SELDOM

    def leave(
        self, content: bytes, answer: Callable[[str], bytes], is_gone: Callable[[], bool], seconds: float
    ) -> None:
        """Answer the rank on another machine that makes the report for the last time, as soon as it has asked.

        content: the answer. answer: see `serve`. is_gone: returns whether nobody makes a report any more. seconds: for
        which to wait for a question, and until the answer is sent.
        """
        deadline = time.monotonic() + seconds
        with self._lock:
            self._last_words = _packed(content)
            if self._reporting is not None:
                self._links.answer(*self._reporting, self._last_words)
        while time.monotonic() < deadline and not is_gone():
            self.serve(answer)
            if self._reporting is not None and self._links.flush(self._reporting[0]):
                return
            time.sleep(_ENDING)


def _packed(content: bytes) -> bytes:
    packed = zlib.compress(content, 1)
    return packed if len(packed) <= LONGEST_ANSWER else b""
