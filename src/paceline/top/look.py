"""Asks the ranks of a running job for their figures, now and since the last time, here and on hosts that are named."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from paceline.observe.figures import MAX_BYTES, Figures, decode
from paceline.observe.rates import Rates, rates
from paceline.observe.stragglers import Last, arrived_last
from paceline.top.far import FarHost
from paceline.trace import live

ANSWER_SECONDS = 2.0
"""Seconds that a rank may take to answer, and a host to send its next line."""
FIRST_SECONDS = 20.0
"""Seconds that a host may take to send its first line."""


@dataclass(frozen=True)
class Row:
    """One rank: its figures, its rates since the previous picture, and how often it arrived last (None if unknown)."""

    figures: Figures
    rates: Rates
    last: Last | None


@dataclass(frozen=True)
class Picture:
    """A job, as far as it runs on this machine and on the hosts that were named.

    size: the number of ranks in the job. silent: for each rank that did not answer, the reason. elsewhere: the number
    of ranks on other machines, which are not shown. gone: the number of ranks that should be on this machine and are
    not.
    unreached: for each host that gave no figures, a sentence.
    """

    size: int
    rows: tuple[Row, ...]
    silent: Mapping[int, str]
    elsewhere: int = 0
    gone: int = 0
    unreached: tuple[str, ...] = ()


class Job:
    """The ranks of one job. `picture` may be called repeatedly.

    pid: the process of any rank, to choose the job if several run here. hosts: where it also runs, as ssh takes them.
    seconds: from one picture to the next.

    Raises ValueError with one sentence if there is no such job here or the choice is ambiguous, and OSError if ssh
    cannot be started. Leaving it as a context ends what it started on the hosts.
    """

    def __init__(self, pid: int | None, hosts: Sequence[str] = (), seconds: float = 1.0) -> None:
        found = live.listening()
        self._names = None if hosts and not found and pid is None else live.choose(found, pid)
        self._before: dict[int, Figures] = {}
        self._missing_here = 0  # ranks of this machine that have ended
        self._hosts: list[FarHost] = []
        with ExitStack() as started:
            for host in hosts:
                self._hosts.append(FarHost(host, self._names[0].job if self._names else None, seconds))
                started.callback(self._hosts[-1].close)
            self._started = started.pop_all()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._started.close()

    def ask(self) -> None:
        """Take the figures that the next picture is compared with. Raises ValueError if no rank answers."""
        self._before = {one.rank: one for one in self._ask(FIRST_SECONDS)[0]}

    def picture(self) -> Picture:
        """Return what happened since the last call of `picture` or `ask`.

        Raises ValueError once no rank answers any more.
        """
        figures, silent = self._ask(ANSWER_SECONDS)
        before, self._before = self._before, {one.rank: one for one in figures}
        last = arrived_last(figures, before)
        rows = tuple(Row(one, rates(one, before.get(one.rank)), last.get(one.rank)) for one in figures)
        size = figures[0].size
        unseen = max(0, size - len(figures) - len(silent))
        gone = min(unseen, self._missing_here)
        unreached = tuple(host.problem for host in self._hosts if host.problem)
        return Picture(size, rows, silent, unseen - gone, gone, unreached)

    def _ask(self, seconds: float) -> tuple[Sequence[Figures], Mapping[int, str]]:
        found: dict[int, Figures] = {}
        silent: dict[int, str] = {}
        deadline = time.monotonic() + seconds
        for host in self._hosts:
            host.look(deadline)
            found.update(host.figures)
            silent.update(host.silent)
        if len(jobs := {host.job for host in self._hosts if host.figures}) > 1:
            raise ValueError(f"{len(jobs)} jobs run on these hosts; run paceline top where a rank of one of them runs")
        if self._names is not None:
            here, quiet = live.ask_all(self._names, "figures", decode, ANSWER_SECONDS, MAX_BYTES)
            found.update({one.rank: one for one in here.values()})
            silent.update({one.name.rank: str(one) for one in quiet})
            expected = min((one.size - one.elsewhere for one in here.values()), default=0)
            self._missing_here = max(0, expected - len(here) - len(quiet))
        if not found:
            raise ValueError("; ".join([*silent.values(), *(host.problem for host in self._hosts if host.problem)]))
        return sorted(found.values(), key=lambda one: one.rank), silent
