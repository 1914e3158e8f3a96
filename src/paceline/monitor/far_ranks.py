"""The questions that ranks on different machines ask each other, over the links that they have anyway."""

from __future__ import annotations

import json
import math
import time
import zlib
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import Protocol

from paceline.monitor.whereabouts import Locate
from paceline.observe.trace.far import FIGURES, LONGEST_ANSWER

_WATCHED = 10.0
"""Seconds after a question in which the next one is expected."""
_LOOK, _SELDOM = 0.25, 20.0
"""Seconds from one look for a question to the next, while one is expected and otherwise: a rank that only computes
reads nothing else."""


class Links(Protocol):
    """The engine, as far as it carries questions; see `paceline._engine.Engine`."""

    def ask(self, words: str, /) -> int:
        """Ask every rank on another machine; return the number of the question."""
        ...

    def answers(self) -> Sequence[tuple[str, int, bytes]]:
        """Return each rank's name among its peers, the number of the question that it answered last, and the answer."""
        ...

    def questions(self) -> Sequence[tuple[int, int, bytes]]:
        """Return the questions of other ranks: the peer, the number and the words of each."""
        ...

    def answer(self, peer: int, number: int, content: bytes, /) -> None:
        """Answer a question."""
        ...

    def questions_descriptor(self) -> int:
        """A descriptor that is readable while there are questions."""
        ...


class FarRanks:
    """The ranks of the job on other machines. locate: see `Whereabouts`."""

    def __init__(self, links: Links, locate: Locate) -> None:
        self._links, self._locate = links, locate
        self._watched_until = -math.inf
        self.descriptor = links.questions_descriptor()
        """It is readable while there is something to `serve`."""

    def ask(self) -> bytes:
        """Ask all of them for their figures. Returns the number of the question, in decimal."""
        return str(self._links.ask(FIGURES)).encode()

    def answers(self) -> bytes:
        """Return their last answers: a JSON object of `[who, number of the question, answer in base64]` by rank."""
        found = {}
        for who, number, content in self._links.answers():
            if place := self._locate(who):
                found[place[0]] = who, number, b64encode(content).decode()
        return json.dumps(found).encode()

    def serve(self, answer: Callable[[str], bytes]) -> float:
        """Answer what they have asked. Returns the seconds after which to look again.

        answer: returns the answer to a question.
        """
        now = time.monotonic()
        for peer, number, words in self._links.questions():
            self._watched_until = now + _WATCHED
            if words == FIGURES.encode():
                content = zlib.compress(answer(FIGURES), 1)
                self._links.answer(peer, number, content if len(content) <= LONGEST_ANSWER else b"")
        return _LOOK if now < self._watched_until else _SELDOM
