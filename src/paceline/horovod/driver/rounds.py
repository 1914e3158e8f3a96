"""Decides which workers form each round of an elastic job, from events alone: without a clock, a process or a socket.

A worker is a process with a number for life. It asks for a round when it has started, and again when a collective
failed or the hosts changed; it waits until the next round is formed and then has a rank there. A round is formed when
every member of the previous one has asked or ended. New workers wait for that too, and the members are notified, so
that they interrupt themselves at their next commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count

from paceline.formats.numbers import in_full
from paceline.horovod.driver.cooldown import Cooldown
from paceline.horovod.driver.limits import Limits
from paceline.horovod.driver.messages import Action, Asked, Broken, End, Form, Seat, Start, Stop, Synced, Tell, Wait
from paceline.horovod.driver.workers import Worker, without_slot
from paceline.horovod.exceptions import HostUpdateResult

WORTH_SAYING = 5.0
"""Seconds that a round may wait before the wait is reported."""
_FUTILE = 3
"""Consecutive rounds without a lost worker after which the job gives up, if the ranks still cannot connect."""


@dataclass
class Rounds:
    """The rounds of an elastic job.

    `set_hosts`, `receive` and `ended` report events; `step` returns the actions to take. All times are seconds of one
    monotonic clock.
    """

    limits: Limits
    cooldown: Cooldown = field(default_factory=Cooldown)
    finished: bool = False
    """True if a rank ended successfully; no further workers are started then."""
    stopped: bool = False
    number: int = 0
    """The number of the present round, 0 before the first."""

    def __post_init__(self) -> None:
        self._hosts: dict[str, int] = {}
        self._workers: dict[int, Worker] = {}
        self._numbers = count()
        self._actions: list[Action] = []
        self._began: float | None = None
        self._since: float | None = None  # when the first member asked for the next round
        self._told = HostUpdateResult.no_update
        self._waits_for = ""  # what was reported last
        self._lost: list[str] = []
        self._failed = False  # whether one of them ended with a failure
        self._futile = 0
        self._unmet = ""
        self._lost_here = False  # whether a member of this round was lost
        self._synced = False  # whether any worker ever had the state

    def set_hosts(self, hosts: Mapping[str, int]) -> None:
        """Use these hosts, with this number of slots each, from now on."""
        self._hosts = {host: self._hosts.get(host, 0) for host in self._hosts if host in hosts} | dict(hosts)

    def receive(self, message: Asked | Synced, now: float) -> None:
        """Handle a message of a worker. Messages of unknown workers and of past rounds are ignored."""
        known = self._workers.get(message.worker)
        if known is None:
            return
        if isinstance(message, Synced):
            known.synced = self._synced = True
        elif known.round == message.round and not known.asks:
            self._asks(known, message, now)

    def ended(self, worker: int, problem: str, now: float) -> None:
        """Handle the end of a worker's process. problem: how it failed; "" if it ended successfully."""
        known = self._workers.get(worker)
        if known is None:
            return
        if problem or not known.round:
            self._failed = self._failed or bool(problem)
            self._lose(known, problem or f"a process on {known.host} ended before it joined the others", now)
        else:
            del self._workers[worker]
            self.finished = True

    def step(self, now: float) -> list[Action]:
        """Return the actions to take at `now`."""
        if not self.stopped:
            self._began = now if self._began is None else self._began
            self._release()
            self._expire(now)
            if self.number == 0 and self._lost and not self._workers:
                if self._failed:
                    self._stop("no rank came as far as its first round", now)
                self.finished = not self._failed  # a program that never asks for a round has ended
            else:
                self._move(now)
        actions, self._actions = self._actions, []
        return actions

    def _asks(self, known: Worker, asked: Asked, now: float) -> None:
        known.asks, known.behind = True, asked.behind
        if known.round:
            self._unmet = self._unmet or asked.problem
            self._since = now if self._since is None else self._since

    def _move(self, now: float) -> None:
        if not self.finished:
            self._fill(now)
        if self.number == 0:
            self._begin(now)
        else:
            self._go_on(now)

    def _lose(self, worker: Worker, problem: str, now: float) -> None:
        del self._workers[worker.number]
        self.cooldown.record_failure(worker.host, now)
        self._lost.append(problem)
        if worker.round and worker.round == self.number:
            self._lost_here = True
            self._actions.append(Broken(worker.round, problem))

    def _release(self) -> None:
        """End workers that have no slot and are in no round."""
        for worker in self._without_slot():
            if not worker.round:
                self._end(worker, "its host has no slot for it any more")

    def _expire(self, now: float) -> None:
        """End workers that have started and do not ask for their first round."""
        for worker in list(self._workers.values()):
            if not worker.round and not worker.asks and now - worker.started >= self.limits.patience:
                self._failed = True
                self._give_up(worker, f"a process on {worker.host} did not ask for a round", now)

    def _give_up(self, worker: Worker, problem: str, now: float) -> None:
        self._actions.append(End(worker.number, f"it did not come within {in_full(self.limits.patience)} s"))
        self._lose(worker, problem, now)

    def _end(self, worker: Worker, why: str) -> None:
        del self._workers[worker.number]
        self._actions.append(End(worker.number, why))

    def _fill(self, now: float) -> None:
        if self.number == 0 and not self._workers and self._slots(now) < self.limits.ranks:
            return
        staying = len(self._workers) - len(self._without_slot())
        for host, slots in self._hosts.items():
            if self.cooldown.excludes(host, now):
                continue
            here = sum(worker.host == host for worker in self._workers.values())
            for place in range(here, slots):
                if self.limits.most is not None and staying >= self.limits.most:
                    return
                worker = Worker(next(self._numbers), host, now)
                self._workers[worker.number] = worker
                staying += 1
                self._actions.append(Start(worker.number, host, place))

    def _slots(self, now: float) -> int:
        return sum(slots for host, slots in self._hosts.items() if not self.cooldown.excludes(host, now))

    def _begin(self, now: float) -> None:
        assert self._began is not None
        if self.finished:
            return
        alive = list(self._workers.values())
        if len(alive) >= self.limits.ranks:
            if all(worker.asks for worker in alive):
                self._form(alive)
            else:
                oldest = min(worker.started for worker in alive if not worker.asks)
                self._wait(f"{_ranks(self._starting())} that started", oldest, now)
        elif self._hopeless(now, self._began):
            self._stop(f"{_ranks(len(alive))} of the {self.limits.ranks} to begin with can be started", now)
        else:
            room = max(len(alive), self._slots(now))
            why = f"there are slots for {room} of the {_ranks(self.limits.ranks)} to begin with"
            self._wait(f"{self._what_comes(self.limits.ranks, now)}, as {why}", self._began, now)

    def _go_on(self, now: float) -> None:
        members = [worker for worker in self._workers.values() if worker.round == self.number]
        if members and not any(worker.asks for worker in members):
            self._tell()
            return
        if self.finished:
            if members:
                self._stop("a rank has ended successfully, and the remaining ones cannot continue without it", now)
            for worker in [each for each in self._workers.values() if not each.round]:
                self._end(worker, "the job is over")
            return
        self._since = now if self._since is None else self._since
        late = [worker for worker in members if not worker.asks]
        if late and now - self._since < self.limits.patience:
            more = f" and {_ranks(len(late) - 1)} more" if len(late) > 1 else ""
            self._wait(f"rank {late[0].rank}{more} to come to the next round", self._since, now)
            return
        for worker in late:
            self._give_up(worker, f"rank {worker.rank} on {worker.host} did not come", now)
        self._next(now)

    def _next(self, now: float) -> None:
        assert self._since is not None
        chosen = self._chosen()
        if self._synced and not any(worker.synced for worker in chosen):
            self._stop("no remaining rank has the state", now)
        elif self._unmet and not self._lost_here and self._futile + 1 >= _FUTILE:
            self._stop(f"the ranks cannot meet: {self._unmet}", now)
        elif len(chosen) < self.limits.least:
            if self._hopeless(now, self._since):
                self._stop(f"{_ranks(len(chosen))} of at least {self.limits.least} can go on", now)
            else:
                why = f"{_ranks(len(chosen))} of at least {self.limits.least} can go on"
                more = self._what_comes(self.limits.least - len(chosen), now)
                self._wait(f"{more}, as {why}", self._since, now)
        elif self.limits.resets is not None and self.number > self.limits.resets:
            self._stop(f"it has been reset {self.limits.resets} times, as often as --reset-limit allows", now)
        else:
            self._futile = self._futile + 1 if self._unmet and not self._lost_here else 0
            self._form(chosen)

    def _hopeless(self, now: float, since: float) -> bool:
        """Return whether no worker can be expected any more, or the wait has taken too long."""
        return now - since >= self.limits.patience or not (self._starting() or self._may_come(now))

    def _starting(self) -> int:
        return sum(not worker.asks for worker in self._workers.values())

    def _may_come(self, now: float) -> bool:
        return self.limits.awaits_hosts or self.cooldown.any_returns(now)

    def _what_comes(self, needed: int, now: float) -> str:
        """Describe from where `needed` further ranks may come."""
        starting = self._starting()
        if starting >= needed or not self._may_come(now):
            return f"{_ranks(starting)} that started"
        return "hosts with free slots" if self.limits.awaits_hosts else "hosts that rest after a failure"

    def _wait(self, what: str, since: float, now: float) -> None:
        """Report the wait once it has lasted for some time."""
        if now - since >= WORTH_SAYING and what != self._waits_for:
            self._waits_for = what
            self._actions.append(Wait(what, self.limits.patience - (now - since)))

    def _without_slot(self) -> list[Worker]:
        return without_slot(self._workers.values(), self._hosts, self.limits.most)

    def _chosen(self) -> list[Worker]:
        """Return the workers for the next round, chosen among those that ask for it."""
        without = {worker.number for worker in self._without_slot()}
        able = [worker for worker in self._workers.values() if worker.asks and worker.number not in without]
        return sorted(able, key=lambda each: each.seniority)

    def _tell(self) -> None:
        """Notify the members if a worker waits to join or has to leave."""
        without = {worker.number for worker in self._without_slot()}
        staying = [w for w in self._workers.values() if w.number not in without and (w.round or w.asks)]
        change = HostUpdateResult.no_update
        if any(not worker.round for worker in staying):
            change |= HostUpdateResult.added
        if any(worker.round and worker.number in without for worker in self._workers.values()):
            change |= HostUpdateResult.removed
        if change & ~self._told and len(staying) >= self.limits.least and not self.finished:
            self._told |= change
            self._actions.append(Tell(self.number, self._told))

    def _form(self, chosen: list[Worker]) -> None:
        for worker in list(self._workers.values()):
            if worker.round and worker not in chosen:
                self._end(worker, "its host has no slot for it any more")
        self.number += 1
        hosts: dict[str, list[Worker]] = {}
        for worker in sorted(chosen, key=lambda each: each.seniority):
            hosts.setdefault(worker.host, []).append(worker)
        sync = any(worker.behind or not worker.synced for worker in chosen)
        seats: list[Seat] = []
        for here in hosts.values():
            for place, worker in enumerate(here):
                seats.append(Seat(worker.number, worker.round, len(seats), place, len(here)))
                worker.rank, worker.round, worker.asks = seats[-1].rank, self.number, False
                worker.joined = worker.joined or self.number
        self._since, self._told, self._unmet, self._lost_here = None, HostUpdateResult.no_update, "", False
        self._waits_for = ""
        self._actions.append(Form(self.number, tuple(seats), sync))

    def _stop(self, why: str, now: float) -> None:
        self.stopped = True
        lost = f" ({'; '.join(self._lost[-4:])})" if self._lost else ""
        excluded = [host for host in self._hosts if self.cooldown.excludes(host, now)]
        rest = f"; {', '.join(excluded)} gets no new ranks after a failure" if excluded else ""
        self._actions.append(Stop(f"{why}{lost}{rest}"))


def _ranks(number: int) -> str:
    return f"{number} rank" if number == 1 else f"{number} ranks"
