"""The answers of a rank to `paceline trace`, `paceline top`, `paceline tune` and other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from paceline.monitor.source_line import users_line

if TYPE_CHECKING:  # what nobody asks for need not be loaded
    from paceline.monitor.far_ranks import FarRanks
    from paceline.observe.observer import Observer
    from paceline.observe.submissions import Submissions


class Answers:
    """Answers questions about this rank, and passes them on.

    trace: returns this rank's dump. observer: returns what follows this rank. far: the ranks on other machines.
    """

    def __init__(self, trace: Callable[[], bytes], observer: Callable[[], Observer], far: FarRanks) -> None:
        self._trace, self._observer, self._far = trace, observer, far
        self._submissions: Submissions | None = None
        self.account: Callable[[], bytes] = self._figures
        """Returns what a report holds of this rank: its figures, unless somebody says otherwise."""

    def __call__(self, question: str) -> bytes:
        """The answer to "trace", "line", "figures", "report", "steps", "ready NUMBER", "far" or "far answers".

        Raises ValueError for any other question.
        """
        words = question.split()
        if words == ["trace"]:
            return self._trace()
        if words == ["line"]:
            return users_line().encode()
        if words == ["figures"]:
            return self._figures()
        if words == ["report"]:
            return self.account()
        if words == ["far"]:
            return str(self._far.ask()).encode()
        if words == ["far", "answers"]:
            return self._far.answers()
        if words == ["steps"]:
            from paceline.observe.begins import encode as encode_begins

            return encode_begins(self._observer().begins_ns())
        if len(words) == 2 and words[0] == "ready":
            if self._submissions is None:
                from paceline.observe.submissions import Submissions

                self._submissions = Submissions(self._observer())
            return self._submissions.since(int(words[1]))
        raise ValueError(f"no such question: {question!r:.100}")

    def _figures(self) -> bytes:
        from paceline.observe.figures import encode

        return encode(self._observer().figures())
