"""Finds out which of several choices makes steps shortest, from nothing but how long steps take.

Choices take turns, so that whatever else happens on the machine happens to all of them. A round has a turn of each
choice; the order of turns is reversed from round to round. A choice's figure in a round is the median time of its steps
over that of the first choice in the same round. A choice that is never better goes out early. The best of the others
meets the first choice once more, in rounds of their own, because the best of several looks better than it is; it stays
only if it wins there, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Generic, TypeVar

from paceline.calibration import coordinate as fitted

Choice = TypeVar("Choice")


@dataclass(frozen=True)
class Subject(Generic[Choice]):
    """The subject of a tuning, and the words for it in messages.

    kind: the noun for a choice. kept, taken: the words of an outcome that keeps the first choice, or takes another.
    name: the name of a choice. hint: the setting that makes a choice from the start, "" if there is none. settling: the
    number of steps after a change that are not counted.
    """

    kind: str
    kept: str
    taken: str
    name: Callable[[Choice], str]
    hint: Callable[[Choice], str]
    settling: int = 1


@dataclass(frozen=True)
class Turn(Generic[Choice]):
    """The outcome of one turn of a choice."""

    round: int
    choice: Choice
    seconds: float
    """The median time of its steps."""


class Tuner(Generic[Choice]):
    """Says by `choice` how the next step is to be made, and learns by `add` how long it took.

    Once `outcome` is not empty, it is a sentence on the result, and `choice` stays as it is. That takes at most
    `most_steps` steps.
    """

    def __init__(self, subject: Subject[Choice], first: Choice, others: Sequence[Choice]) -> None:
        """Begin with `first`, which stays unless one of `others` is better."""
        self.choice = self._first = first
        self.outcome = ""
        self.turns: list[Turn[Choice]] = []
        self.steps = 0
        self._subject = subject
        self._choices = [first, *(choice for choice in dict.fromkeys(others) if choice != first)]
        self._order = {choice: number for number, choice in enumerate(self._choices)}
        most = (len(self._choices) + 2) * fitted.ROUNDS * (subject.settling + fitted.MOST_COUNTED_STEPS)
        begun_again = (fitted.UNLIKE_STEPS + 1) * (fitted.WARM_UP_STEPS + fitted.MOST_COUNTED_STEPS)
        self.most_steps = fitted.WARM_UP_STEPS + most + begun_again
        self._counted = fitted.COUNTED_STEPS
        self._confirms = False
        self._round = 0
        self._queue: list[Choice] = []
        self._seconds: list[float] = []
        self._figures: dict[Choice, list[float]] = {}
        self._seen: dict[Choice, float] = {}
        self._usual = -1
        self._alike = 0
        self._unlike = 0

    def add(self, seconds: float, requests: int) -> None:
        """Take in a step that had `requests` requests.

        seconds: the time from its first request to the first one of the next step.
        """
        if self.outcome:
            return
        self.steps += 1
        if requests != self._usual:
            self._add_unlike(requests)
        else:
            self._seconds.append(seconds)
            if self._alike < fitted.WARM_UP_STEPS:
                self._alike += 1
                if self._alike == fitted.WARM_UP_STEPS:
                    self._end_warm_up()
            elif len(self._seconds) >= self._subject.settling + self._counted:
                self._end_turn()

    def stay(self, why: str) -> None:
        """Try nothing more and keep the first choice. why: the reason, as the end of a sentence."""
        if self.outcome:
            return
        self.choice = self._first
        self._end(f"{self._subject.name(self._first)} {self._subject.kept}, because {why}")

    def _add_unlike(self, requests: int) -> None:
        if self._alike < fitted.WARM_UP_STEPS:
            self._usual, self._alike = requests, 1
        self._seconds.clear()
        self._unlike += 1
        if self._unlike > fitted.UNLIKE_STEPS:
            self.stay("steps are not alike")

    def _end_warm_up(self) -> None:
        needed = fitted.TURN_SECONDS / max(median(self._seconds), 1e-9)
        self._counted = min(max(math.ceil(needed), fitted.COUNTED_STEPS), fitted.MOST_COUNTED_STEPS)
        self._begin_round()

    def _begin_round(self) -> None:
        self._round += 1
        self._queue = self._choices[:: 1 if self._round % 2 else -1]
        self._begin_turn()

    def _begin_turn(self) -> None:
        self.choice = self._queue[0]
        self._seconds.clear()

    def _end_turn(self) -> None:
        self.turns.append(Turn(self._round, self._queue.pop(0), median(self._seconds[self._subject.settling :])))
        if self._queue:
            self._begin_turn()
        else:
            self._end_round()

    def _end_round(self) -> None:
        taken = {turn.choice: turn.seconds for turn in self.turns[-len(self._choices) :]}
        base = max(taken.pop(self._first), 1e-9)
        for choice, seconds in taken.items():
            figures = self._figures.setdefault(choice, [])
            figures.append(seconds / base)
            self._seen[choice] = median(figures)
            if figures[0] >= fitted.MUCH_WORSE or (len(figures) >= fitted.FIRST_LOOK and min(figures) >= 1):
                self._choices.remove(choice)
        if len(self._choices) == 1:
            self.stay(f"no other {self._subject.kind} was better")
        elif len(self._figures[self._choices[1]]) < fitted.ROUNDS:
            self._begin_round()
        else:
            self._judge(min(self._choices[1:], key=self._seen.__getitem__))

    def _judge(self, best: Choice) -> None:
        if not is_better(self._figures[best]):
            self.stay(f"no other {self._subject.kind} was better beyond the noise")
        elif self._confirms:
            self._take(best)
        else:
            self._confirms = True
            self._choices = [self._first, best]
            self._figures.clear()
            self._begin_round()

    def _take(self, choice: Choice) -> None:
        self.choice = choice
        name, hint = self._subject.name, self._subject.hint(choice)
        self._end(f"{name(choice)} instead of {name(self._first)}" + (f", {hint} from the start" if hint else ""))

    def _end(self, sentence: str) -> None:
        name = self._subject.name
        seen = sorted(self._seen.items(), key=lambda item: self._order[item[0]])
        took = ", ".join(f"{name(choice)} {figure:.1%}" for choice, figure in seen)
        figures = f"; of a step's time with {name(self._first)} took {took}" if took else ""
        self.outcome = f"{self._subject.taken} {sentence}{figures}; {self.steps} steps were tried"


def is_better(figures: Sequence[float]) -> bool:
    """Return whether these figures, one for each round, are those of a choice that is better than the first one."""
    return median(figures) <= fitted.BETTER and sum(figure >= 1 for figure in figures) <= 1
