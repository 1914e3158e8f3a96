"""Gathers every rank's figures on the first rank while the job runs, and what a rank leaves when it ends."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from paceline.monitor.far_ranks import FarRanks
from paceline.observe.figures import MAX_BYTES, Figures, decode
from paceline.observe.trace.asking import Silence, questions
from paceline.observe.trace.far import REPORT, unpacked
from paceline.observe.trace.listener import Name
from paceline.observe.trace.live import listening

_LOOK = 0.01
"""Seconds from one look for what ranks on other machines have sent to the next."""


class Gathering:
    """The newest figures of all ranks but the first one, on which this is. Thread-safe.

    job: the channel of the group of all ranks. far: those on other machines. others: the ranks. fate: returns what has
    become of a rank, in words; "" while it is there.
    """

    def __init__(self, job: int, far: FarRanks, others: Sequence[int], fate: Callable[[int], str]) -> None:
        self._job, self._far, self._others, self._fate = job, far, others, fate
        self._lock = threading.Lock()
        self._newest: dict[int, Figures] = {}
        self._silent: dict[int, str] = {}  # why the last round brought nothing of a rank
        self._left: dict[int, bytes] = {}  # what ranks of this machine have left
        self._asked: set[int] = set()
        self._answered: dict[int, tuple[int, bytes]] = {}

    def take(self, rank: int, content: bytes) -> None:
        """Take what a rank of this machine leaves, as it ends."""
        self._left[rank] = content

    def round(self, seconds: float) -> None:
        """Ask all ranks that have not ended for their figures. seconds: the time that they have."""
        with self._lock:
            deadline = time.monotonic() + seconds
            waiting = set(self._waiting())
            names = [name for name in self._near() if name.rank in waiting]
            number = self._ask_far(waiting - {name.rank for name in names})
            for name, answer in zip(names, questions(names, REPORT, decode, seconds, MAX_BYTES), strict=True):
                if isinstance(answer, Silence):
                    self._silent[name.rank] = str(answer)
                elif answer is not None:
                    self._note(name.rank, answer)
            far = waiting - {name.rank for name in names}
            while (left := self._unanswered(far, number)) and time.monotonic() < deadline:
                time.sleep(_LOOK)
            for rank in left:
                self._silent[rank] = f"rank {rank} did not answer within {seconds:g} s"

    def finish(self, seconds: float) -> None:
        """Wait for what the ranks leave that end now, too, and ask those that do not."""
        deadline = time.monotonic() + seconds
        with self._lock:
            self._ask_far(set(self._waiting()))
        while time.monotonic() < deadline:
            with self._lock:
                self._hear_far()
                near = {name.rank for name in self._near()}
                if not any(rank in near or not self._fate(rank) for rank in self._waiting()):
                    break
            time.sleep(_LOOK)
        self.round(min(1.0, seconds))

    def found(self) -> tuple[list[Figures], dict[int, str], dict[int, str]]:
        """Return the newest figures, for each rank without figures the reason, and the same for each whose figures end
        before the rank did."""
        with self._lock:
            for rank, content in list(self._left.items()):
                self._settle(rank, content)
            missing, cut = {}, {}
            for rank in self._others:
                newest = self._newest.get(rank)
                if newest is None:
                    missing[rank] = self._reason(rank)
                elif not newest.final and (why := self._reason(rank)):
                    cut[rank] = why
            return [self._newest[rank] for rank in self._others if rank in self._newest], missing, cut

    def _reason(self, rank: int) -> str:
        return self._fate(rank) or self._silent.get(rank, "")

    def _settle(self, rank: int, content: bytes) -> None:
        del self._left[rank]
        try:
            self._note(rank, decode(content))
        except ValueError as error:
            self._silent[rank] = f"rank {rank} sent something that is {error}"

    def _note(self, rank: int, figures: Figures) -> None:
        before = self._newest.get(rank)
        if before is not None and (before.final, before.time_ns) > (figures.final, figures.time_ns):
            return
        if before is not None and figures.profile is None:
            figures = replace(figures, profile=before.profile)
        self._newest[rank] = figures
        self._silent.pop(rank, None)

    def _waiting(self) -> Iterator[int]:
        """The ranks that have not left their last figures."""
        for rank in self._others:
            newest = self._newest.get(rank)
            if rank not in self._left and (newest is None or not newest.final):
                yield rank

    def _near(self) -> list[Name]:
        return [name for name in listening() if name.job == self._job]

    def _ask_far(self, ranks: set[int]) -> int:
        if not ranks:
            return 0
        number = self._far.ask(REPORT)
        self._asked.add(number)
        return number

    def _unanswered(self, ranks: set[int], number: int) -> set[int]:
        """The ranks that have not answered yet and are still there."""
        if ranks:
            self._hear_far()
        return {rank for rank in ranks if self._answered.get(rank, (0, b""))[0] < number and not self._fate(rank)}

    def _hear_far(self) -> None:
        for rank, answer in self._far.newest().items():
            if answer.number not in self._asked or self._answered.get(rank) == answer:
                continue
            self._answered[rank] = answer
            try:
                self._note(rank, decode(unpacked(answer.content, MAX_BYTES)))
            except (ValueError, zlib.error) as error:
                self._silent[rank] = f"rank {rank} sent something that is {error}"
