"""Policies of coordination in random worlds: whatever the order, the delays and the joins, all ranks do the same."""

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paceline import _worlds

POLICIES = ["board", "graph", "cycle", "global_sleep", "nonblocking"]
ORDER = [["t0", "t1"], ["t2"], ["t3", "t4"]]


class User:
    """One rank's program: in each step it submits some names, then waits for all of them; at the end it may join."""

    def __init__(self, steps: list[list[tuple[str, int]]], joins: bool) -> None:
        self.todo: list[tuple[str, int] | None] = []
        for step in steps:
            self.todo += [*step, None]
        self.joins = joins

    def finished(self) -> bool:
        return not self.todo and not self.joins

    def go_on(self, world: _worlds.PolicyWorld, rank: int) -> None:
        if self.todo and self.todo[0] is not None:
            name, count = self.todo.pop(0) or ("", 0)
            world.submit(rank, name, count)
        elif self.todo:
            waiting = world.under_way(rank)
            for name in waiting:
                world.wait(rank, name)
            if not waiting:
                self.todo.pop(0)
        elif self.joins:
            self.joins = False
            world.join(rank)


def play(
    world: _worlds.PolicyWorld,
    users: list[User],
    rng: random.Random,
    now_and_then: Callable[[], None] = lambda: None,
) -> None:
    for _ in range(60_000):
        now_and_then()
        events = world.events()
        choice = rng.randrange(len(users) + len(events))
        if choice < len(users):
            users[choice].go_on(world, choice)
        else:
            world.happen(choice - len(users))
        if all(user.finished() for user in users):
            try:
                return world.check_over()
            except RuntimeError:
                if not world.events():
                    raise
    world.check_over()
    raise AssertionError("it never ends")


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[int], list[User], int, int]:
    machines = draw(st.integers(1, 3))
    machine_of = list(range(machines)) + draw(st.lists(st.integers(0, machines - 1), max_size=8 - machines))
    steps = draw(
        st.lists(
            st.lists(
                st.sampled_from(["t0", "t1", "t2", "t3", "t4", "metric", "u0", "u1", "u2"]), unique=True, max_size=7
            ),
            min_size=1,
            max_size=5,
        )
    )
    # Tensors change their size now and then, on all ranks alike; unnamed ones are new in every step.
    sized = [
        [(name + str(at) if name[0] == "u" else name, draw(st.sampled_from([1, 1, 1, 8]))) for name in step]
        for at, step in enumerate(steps)
    ]
    joins = draw(st.booleans())
    users = []
    for _ in machine_of:
        mine = sized[: draw(st.integers(0, len(sized)))] if joins else sized
        users.append(User([draw(st.permutations(step)) for step in mine], joins))
    return machine_of, users, draw(st.sampled_from([9, 64])), draw(st.integers(0, 2**32))


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(world=worlds(), capacity=st.sampled_from([0, 3, 1024]), fusion=st.sampled_from([1, 16, 1 << 20]))
def test_ranks_do_the_same_and_come_to_an_end(policy, world, capacity, fusion):
    machine_of, users, slots, seed = world
    made = _worlds.PolicyWorld(policy, machine_of, fusion, capacity, slots)
    if policy == "graph":
        for rank in range(made.size):
            made.set_order(rank, ORDER)
    submitted = [sum(entry is not None for entry in user.todo) for user in users]
    joins = users[0].joins
    play(made, users, random.Random(seed))
    for rank in range(made.size):
        over = made.over(rank)
        assert len(over) == submitted[rank]
        assert [error for _, error in over if error] == []
        assert made.joins(rank) == made.joins(0)
        assert len(made.joins(rank)) == joins


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(world=worlds(), fusion=st.sampled_from([1, 16, 1 << 20]), often=st.sampled_from([0.02, 0.1, 0.5]))
def test_ranks_change_their_policy_together(world, fusion, often):
    """Whatever ranks are doing when rank 0 asks: no request is lost, none is issued twice or in another order."""
    machine_of, users, slots, seed = world
    made = _worlds.PolicyWorld("switching", machine_of, fusion, slots=slots)
    submitted = [sum(entry is not None for entry in user.todo) for user in users]
    joins = users[0].joins
    rng = random.Random(seed)
    seen = ["board"]
    left = iter(range(3000))  # a policy that is changed for ever may never get on

    def change() -> None:
        name, refused = made.in_use(0)
        if name != seen[-1]:
            seen.append(name)
        assert joins or not refused
        if rng.random() < often and next(left, None) is not None:
            made.use(*rng.choice([("board", []), ("cycle", []), ("graph", []), ("graph", ORDER), ("graph", ORDER[:2])]))

    play(made, users, rng, change)
    seen.append(made.in_use(0)[0])
    for rank in range(made.size):
        over = made.over(rank)
        assert len(over) == submitted[rank]
        assert [error for _, error in over if error] == []
        assert made.joins(rank) == made.joins(0)
        assert len(made.joins(rank)) == joins
        assert made.in_use(rank)[0] in seen


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 2), min_size=2, max_size=5), machines=st.integers(1, 3), seed=st.integers(0, 2**32)
)
def test_disagreement_fails_on_all_ranks_with_the_same_sentence(policy, sizes, machines, seed):
    world = _worlds.PolicyWorld(policy, [rank % machines for rank in range(max(len(sizes), machines))])
    counts = sizes + [1] * (world.size - len(sizes))
    users = [User([[("t", count), ("fine", 1)]], False) for count in counts]
    play(world, users, random.Random(seed))
    errors = {tuple(error for name, error in sorted(world.over(rank))) for rank in range(world.size)}
    assert len(errors) == 1
    fine, error = errors.pop()
    assert fine == ""
    assert (error != "") == (len(set(counts)) > 1)
    for count in set(counts) if error else ():
        assert f"float32[{count}]" in error
