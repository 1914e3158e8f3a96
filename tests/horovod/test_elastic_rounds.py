"""Who is in which round, without a process: every history keeps the rules, particular ones end as they should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.horovod.driver.cooldown import Cooldown
from paceline.horovod.driver.limits import Limits
from paceline.horovod.driver.messages import Action, Asked, Broken, End, Form, Start, Stop, Synced, Tell, Wait
from paceline.horovod.driver.rounds import WORTH_SAYING, Rounds
from paceline.horovod.exceptions import HostUpdateResult


class Play:
    """Carries out what the rounds say, and checks it. `round_of`: the living workers' rounds, 0 for none."""

    def __init__(self, limits: Limits, hosts: dict[str, int], cooldown: tuple[float, float] | None = None) -> None:
        self.rounds = Rounds(limits, Cooldown(cooldown))
        self.limits, self.now = limits, 0.0
        self.hosts = dict(hosts)
        self.host_of: dict[int, str] = {}
        self.round_of: dict[int, int] = {}
        self.synced: set[int] = set()
        self.asking: set[int] = set()
        self.forms: list[Form] = []
        self.said: list[Action] = []
        self.ranks: dict[int, int] = {}

    def step(self, seconds: float = 0.0) -> list[Action]:
        self.now += seconds
        self.rounds.set_hosts(self.hosts)
        actions = self.rounds.step(self.now)
        for action in actions:
            self._check(action)
        self.said += actions
        return actions

    def ask(self, *workers: int, problem: str = "", behind: bool = False) -> None:
        for worker in workers:
            self.asking.add(worker)
            self.rounds.receive(Asked(worker, self.round_of[worker], behind, problem), self.now)

    def end(self, worker: int, problem: str = "killed") -> None:
        self._forget(worker)
        self.rounds.ended(worker, problem, self.now)

    def sync(self) -> None:
        """The state reaches all ranks of the round."""
        for worker, number in self.round_of.items():
            if number and number == self.rounds.number:
                self.synced.add(worker)
                self.rounds.receive(Synced(worker), self.now)

    def run(self) -> Form:
        """Everybody asks, a round is formed, and its state reaches all."""
        self.step()
        self.ask(*(worker for worker in self.round_of if worker not in self.asking))
        self.step()
        self.sync()
        return self.forms[-1]

    def _forget(self, worker: int) -> None:
        for where in (self.host_of, self.round_of):
            where.pop(worker)
        self.asking.discard(worker)

    def _check(self, action: Action) -> None:
        assert not isinstance(action, (Start, Form, Stop)) or not any(isinstance(each, Stop) for each in self.said)
        if isinstance(action, Start):
            assert not self.rounds.finished and action.worker not in self.host_of
            self.host_of[action.worker], self.round_of[action.worker] = action.host, 0
            assert list(self.host_of.values()).count(action.host) <= self.hosts[action.host]
            staying = [min(slots, list(self.host_of.values()).count(host)) for host, slots in self.hosts.items()]
            assert sum(staying) <= (self.limits.most or 1000)
        elif isinstance(action, End):
            self._forget(action.worker)
        elif isinstance(action, Form):
            self._check_form(action)
        elif isinstance(action, Wait):
            assert 0 < action.seconds <= self.limits.patience - WORTH_SAYING

    def _check_form(self, form: Form) -> None:
        before = self.rounds.number - 1
        chosen = [seat.worker for seat in form.seats]
        assert form.number == before + 1 and [seat.rank for seat in form.seats] == list(range(len(chosen)))
        assert set(chosen) <= self.asking and len(set(chosen)) == len(chosen)
        assert (self.limits.least if before else self.limits.ranks) <= len(chosen) <= (self.limits.most or 1000)
        assert not [w for w, number in self.round_of.items() if number == before != 0 and w not in self.asking]
        assert all(seat.after == self.round_of[seat.worker] for seat in form.seats)
        if self.synced & set(self.round_of):
            assert chosen[0] in self.synced
        assert form.sync or set(chosen) <= self.synced
        for host, slots in self.hosts.items():
            here = [seat for seat in form.seats if self.host_of[seat.worker] == host]
            assert len(here) <= slots and [seat.local_rank for seat in here] == list(range(len(here)))
            assert all(seat.local_size == len(here) for seat in here)
            assert not here or here[-1].rank - here[0].rank == len(here) - 1
        for worker in chosen:
            self.round_of[worker] = form.number
            self.asking.discard(worker)
        self.forms.append(form)


HISTORY = st.lists(
    st.tuples(st.sampled_from(["ask", "all", "kill", "leave", "host", "time", "sync"]), st.integers(0, 7)), max_size=40
)


@given(HISTORY, st.integers(1, 4), st.integers(1, 4), st.integers(0, 3), st.booleans(), st.booleans())
def test_every_history_keeps_the_rules(
    history: list[tuple[str, int]], ranks: int, least: int, more: int, waits: bool, cools: bool
) -> None:
    limits = Limits(ranks, min(least, ranks), ranks + more, patience=9.0, awaits_hosts=waits)
    play = Play(limits, {"a": 2, "b": ranks}, (1.0, 4.0) if cools else None)
    for what, which in history:
        alive = sorted(play.round_of)
        if what == "ask" and alive and (one := alive[which % len(alive)]) not in play.asking:
            play.ask(one)
        elif what == "all":
            play.ask(*(worker for worker in alive if worker not in play.asking))
        elif what == "kill" and alive:
            play.end(alive[which % len(alive)])
        elif what == "leave" and alive:
            play.end(alive[which % len(alive)], "")
        elif what == "host":
            play.hosts = {**play.hosts, "abc"[which % 3]: which // 2} if which else {"a": 1}
        elif what == "sync":
            play.sync()
        play.step(which if what == "time" else 0.0)
    # Whatever happened, it does not wait for ever: all ask, and the time is up.
    for seconds in (0.0, limits.patience, 0.0):
        play.ask(*(worker for worker in play.round_of if worker not in play.asking))
        play.step(seconds)
    members = {worker for worker, number in play.round_of.items() if number and number == play.rounds.number}
    assert play.rounds.stopped or play.rounds.finished or (members and not members & play.asking)


def test_the_others_go_on_without_one_that_was_killed() -> None:
    play = Play(Limits(3, 2), {"here": 3})
    assert len(play.run().seats) == 3
    play.end(1, "rank 1 was killed")
    assert play.step() == [Broken(1, "rank 1 was killed")]
    play.ask(2, behind=True)
    assert play.step() == []
    play.ask(0, behind=True)
    (form,) = play.step()
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [0, 2] and form.sync
    play.end(0)
    play.ask(2)
    assert "1 rank of at least 2 can go on (rank 1 was killed; killed); here gets no new ranks" in str(play.step()[-1])


def test_a_replacement_is_waited_for_where_it_is_needed() -> None:
    play = Play(Limits(2, 2), {"a": 1, "b": 2})
    play.limits = Limits(2, 2, 2)
    play.rounds.limits = play.limits
    play.run()
    play.end(0)
    start = play.step()[-1]
    assert isinstance(start, Start) and start.host == "b"
    play.ask(1)
    assert play.step(300.0) == [Wait("1 rank that started, as 1 rank of at least 2 can go on", 300.0)]
    assert play.step(200.0) == []
    play.ask(start.worker)
    (form,) = play.step()
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [1, start.worker] and form.sync


def test_a_new_host_is_told_of_once_its_worker_is_ready() -> None:
    play = Play(Limits(2, 1, awaits_hosts=True), {"a": 2})
    play.run()
    play.hosts["b"] = 1
    (start,) = play.step()
    assert isinstance(start, Start) and play.step() == []
    play.ask(start.worker)
    assert play.step() == [Tell(1, HostUpdateResult.added)] and play.step() == []
    play.ask(0, 1)
    (form,) = play.step()
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [0, 1, 2]


def test_a_host_that_leaves_takes_its_ranks_along_and_nobody_need_be_synchronised() -> None:
    play = Play(Limits(3, 1, awaits_hosts=True), {"a": 1, "b": 2})
    play.run()
    del play.hosts["a"]
    assert play.step() == [Tell(1, HostUpdateResult.removed)]
    play.ask(0, 1, 2)
    end, form = play.step()
    assert isinstance(end, End) and end.worker == 0
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [1, 2] and not form.sync


def test_who_does_not_come_is_ended() -> None:
    play = Play(Limits(3, 2, patience=7.0), {"a": 3})
    play.run()
    play.ask(0, 2)
    assert play.step(6.0) == [Wait("rank 1 to come to the next round", 1.0)]
    assert play.step(0.9) == []
    end, _, form = play.step(0.2)
    assert isinstance(end, End) and end.worker == 1 and isinstance(form, Form) and len(form.seats) == 2


def test_a_process_that_never_asks_for_its_first_round_is_ended() -> None:
    play = Play(Limits(2, 1, patience=10.0), {"a": 3})
    play.step()
    play.ask(0, 1)
    assert play.step(6.0) == [Wait("1 rank that started", 4.0)]
    end, form = play.step(4.0)
    assert end == End(2, "it did not come within 10 s")
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [0, 1]


def test_the_first_round_is_given_up_without_its_ranks() -> None:
    play = Play(Limits(2, 2, patience=10.0), {"a": 2})
    play.step()
    play.ask(0)
    end, stop = play.step(10.0)
    assert isinstance(end, End) and end.worker == 1
    assert isinstance(stop, Stop) and "a process on a did not ask for a round" in stop.why


def test_who_ends_well_before_it_joins_does_not_end_the_job() -> None:
    play = Play(Limits(2, 2), {"a": 2})
    play.step()
    play.ask(0)
    play.end(1, "")
    (stop,) = play.step()
    assert isinstance(stop, Stop) and "a process on a ended before it joined the others" in stop.why

    play = Play(Limits(2, 1, awaits_hosts=True), {"a": 2})
    play.run()
    play.hosts["b"] = 1
    (start,) = play.step()
    assert isinstance(start, Start)
    play.end(start.worker, "")
    assert play.step() == [] and not play.rounds.finished
    play.end(1)
    play.ask(0, behind=True)
    form = play.step()[-1]
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [0]


def test_a_program_that_joins_no_round_ends_the_job_well() -> None:
    play = Play(Limits(2, 1), {"a": 2})
    play.step()
    play.end(0, "")
    assert play.step() == [] and not play.rounds.finished
    play.end(1, "")
    assert play.step() == [] and play.rounds.finished and not play.rounds.stopped


def test_a_host_is_replaced_although_its_ranks_are_not_gone_yet() -> None:
    play = Play(Limits(2, 1, 2, awaits_hosts=True), {"a": 1, "b": 1})
    play.run()
    play.hosts = {"a": 1, "c": 1}
    start, tell = play.step()
    assert isinstance(start, Start) and start.host == "c" and tell == Tell(1, HostUpdateResult.removed)
    play.ask(0, 1, start.worker)
    end, form = play.step()
    assert isinstance(end, End) and end.worker == 1
    assert isinstance(form, Form) and [seat.worker for seat in form.seats] == [0, start.worker]


def test_no_more_ranks_stay_than_are_wished_when_a_host_comes_back() -> None:
    play = Play(Limits(2, 1, 2, awaits_hosts=True), {"a": 1, "b": 1})
    play.run()
    play.hosts = {"a": 1, "c": 1}
    start = play.step()[0]
    assert isinstance(start, Start)
    play.ask(start.worker)
    play.hosts = {"a": 1, "b": 1, "c": 1}
    (end,) = play.step()
    assert isinstance(end, End) and end.worker == start.worker


def test_patience_ends() -> None:
    play = Play(Limits(2, 2, patience=5.0, awaits_hosts=True), {"a": 1, "b": 1})
    play.run()
    play.end(1)
    play.step()
    play.ask(0)
    assert play.step(4.0) == []
    (stop,) = play.step(1.0)
    assert isinstance(stop, Stop) and stop.why.startswith("1 rank of at least 2 can go on")


def test_what_is_waited_for_is_said_once_until_it_changes() -> None:
    play = Play(Limits(3, 3, patience=60.0, awaits_hosts=True), {"a": 1})
    assert play.step(0.0) == [] and play.step(4.0) == []
    too_few = "hosts with free slots, as there are slots for {} of the 3 ranks to begin with"
    assert play.step(2.0) == [Wait(too_few.format(1), 54.0)]
    assert play.step(10.0) == []
    play.hosts["b"] = 1
    assert play.step(10.0) == [Wait(too_few.format(2), 34.0)]
    play.hosts["c"] = 1
    assert [type(action) for action in play.step(1.0)] == [Start] * 3
    play.run()
    play.end(2)
    play.ask(0, 1)
    assert [type(action) for action in play.step(30.0)] == [Broken, Wait]
    assert play.said[-1] == Wait("hosts with free slots, as 2 ranks of at least 3 can go on", 30.0)


def test_a_failed_host_comes_back_after_its_rest_which_doubles() -> None:
    play = Play(Limits(2, 1), {"a": 1, "b": 1}, (10.0, 15.0))
    play.run()
    for rest in (10.0, 15.0, 15.0):
        play.end(max(play.round_of))
        play.step()
        play.ask(0)
        play.step()
        assert play.step(rest - 0.1) == []
        (start,) = play.step(0.2)
        assert isinstance(start, Start) and start.host == "b"
        play.ask(start.worker)
        play.step()
        play.ask(0)
        play.step()
        play.sync()


def test_resets_are_counted() -> None:
    play = Play(Limits(3, 1, resets=1), {"a": 3})
    play.run()
    play.end(2)
    assert play.run().number == 2
    play.end(1)
    play.step()
    play.ask(0)
    assert "been reset 1 times, as often as --reset-limit allows" in str(play.step())


def test_the_state_is_not_begun_anew_in_silence() -> None:
    play = Play(Limits(1, 1, awaits_hosts=True), {"a": 1})
    play.run()
    play.hosts["b"] = 1
    (start,) = play.step()
    assert isinstance(start, Start)
    play.ask(start.worker)
    play.end(0)
    assert "no remaining rank has the state (killed)" in str(play.step()[-1])


def test_ranks_that_can_never_meet_stop() -> None:
    play = Play(Limits(2, 1), {"a": 2})
    play.step()
    play.ask(0, 1)
    for _ in range(3):
        (form,) = play.step()
        assert isinstance(form, Form)
        play.ask(0, 1, problem="versions differ")
    assert play.step() == [Stop("the ranks cannot meet: versions differ")]


def test_nobody_is_started_after_the_end() -> None:
    play = Play(Limits(2, 1), {"a": 2}, (1.0, 1.0))
    play.run()
    play.end(0, "")
    assert play.step(10.0) == [] and play.rounds.finished
    play.end(1)
    assert not any(isinstance(action, Start) for action in play.step(10.0))


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"ranks": 0, "least": 1}, "at least one rank"),
        ({"ranks": 2, "least": 3}, "--min-np 3 should be from 1 to -np, which is 2"),
        ({"ranks": 2, "least": 1, "most": 1}, "--max-np 1 should not be less than -np, which is 2"),
    ],
)
def test_limits_that_cannot_be_meant(limits: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Limits(**limits)


@pytest.mark.parametrize("pair", [(0.5, 2.0), (3.0, 2.0), (1.0, 4000.0)])
def test_a_cooldown_that_cannot_be_meant(pair: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="two numbers of seconds from 1 to 3600"):
        Cooldown(pair)
