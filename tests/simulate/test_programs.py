"""All-reduces by the engine's programs on a simulated network, beside the cost model."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.plan.algorithms import ALGORITHMS, named
from paceline.plan.choice import NO_LIMIT, Choice
from paceline.plan.cost import cost
from paceline.plan.ir import Plan, Range, Reduce
from paceline.simulate.network import uniform
from paceline.simulate.programs import MessageCost, all_reduce
from paceline.topology import Link, Node, Topology

FREE = MessageCost(between=0.0, within=0.0, shared_between=0.0, shared_within=0.0, header=0.0)
"""Messages that take no longer than their bytes."""


def alone(plan: Plan, chunk: int = 0) -> Choice:
    return Choice(plan, NO_LIMIT, "", chunk=chunk)


speeds = st.floats(1e6, 1e10)
latencies = st.floats(0.0, 1e-3)


@st.composite
def trees(draw: st.DrawFn) -> Topology:
    """Two to four machines of one to three ranks, below one switch or two."""

    def link() -> Link:
        return Link(draw(speeds), draw(speeds), draw(latencies))

    machines = [
        Node("machine", f"m{i}", link(), tuple(Node("rank", f"r{j}", link()) for j in range(draw(st.integers(1, 3)))))
        for i in range(draw(st.integers(2, 4)))
    ]
    if draw(st.booleans()):
        return Topology("one switch", Node("switch", "s", None, tuple(machines)))
    left, right = Node("switch", "a", link(), tuple(machines[:1])), Node("switch", "b", link(), tuple(machines[1:]))
    return Topology("two switches", Node("switch", "s", None, (left, right)))


@given(
    st.sampled_from(["ring", "halving_doubling"]),
    st.integers(1, 3),
    st.integers(1, 4096),
    speeds,
    st.floats(20e-6, 1e-3),
)
def test_one_operation_takes_what_the_cost_model_says(
    name: str, doublings: int, each: int, speed: float, latency: float
) -> None:
    """Both model the same thing where a rank sends one message at a time and all links are alike."""
    world = 1 << doublings
    machines = tuple(
        Node("machine", f"m{i}", Link(speed, speed, latency), (Node("rank", "r", Link(math.inf, math.inf)),))
        for i in range(world)
    )
    topology = Topology("star", Node("switch", "s", None, machines))
    plan = named(name).plan(topology)
    nbytes = 4 * each * world
    simulated = all_reduce(alone(plan), topology, nbytes, MessageCost(header=0.0))
    assert simulated.seconds == pytest.approx(cost(plan, topology, nbytes, chunk=1 << 40).seconds, rel=1e-9)


@given(trees(), st.sampled_from(sorted(ALGORITHMS)), st.integers(1, 1 << 20), st.sampled_from([0, 4096, 1 << 18]))
def test_what_crosses_the_links_is_what_the_cost_model_says(
    topology: Topology, name: str, count: int, chunk: int
) -> None:
    """No link can be quicker than its bytes, which the model adds up; contention can only take longer."""
    plan = named(name).plan(topology)
    done = all_reduce(alone(plan, chunk), topology, 4 * count, FREE)
    assert len(done.ranks) == topology.world
    model = cost(plan, topology, 4 * count)
    chunks = 1 if not chunk else 4 * count // chunk + 1
    rounding = 8 * chunks * sum(len(level) for level in plan.levels) * topology.world
    for link in model.links:
        assert done.links[link.name] == pytest.approx((link.bytes, link.bytes), rel=1e-9, abs=rounding)
        assert done.seconds >= (link.seconds - rounding / 1e6) * (1 - 1e-6)


def test_contention_that_the_cost_model_does_not_see() -> None:
    """Three machines send to a fourth: 2 MB out of a link of 1 MB/s, and 1 MB each from the others, into 2 MB/s.

    No link needs more than 2 s. But each of the three first gets a third of the last link, 2/3 MB/s, and once the other
    two are done, after 1.5 s, half of the 2 MB is still to come at 1 MB/s.
    """
    quick = 1e12
    links = (Link(1e6, quick), Link(quick, quick), Link(quick, quick), Link(quick, 2e6))
    machines = tuple(
        Node("machine", f"m{i}", link, (Node("rank", "r", Link(quick, quick)),)) for i, link in enumerate(links)
    )
    topology = Topology("star", Node("switch", "s", None, machines))
    halves = Range(Fraction(0), Fraction(1, 2)), Range(Fraction(1, 2), Fraction(1))
    plan = Plan(4, "uneven", ((Reduce(halves[0], (0, 1, 2, 3), 3), Reduce(halves[1], (0, 3), 3)),))
    assert all_reduce(alone(plan), topology, 2_000_000, FREE).seconds == pytest.approx(2.5, rel=1e-4)
    assert cost(plan, topology, 2_000_000, chunk=1 << 40).seconds == pytest.approx(2.0, rel=1e-4)


@given(trees(), st.sampled_from(sorted(ALGORITHMS)))
def test_it_is_the_same_every_time_and_larger_buffers_take_longer(topology: Topology, name: str) -> None:
    what = alone(named(name).plan(topology), 1 << 16)
    runs = [all_reduce(what, topology, nbytes) for nbytes in (1 << 12, 1 << 18, 1 << 22)]
    assert runs[1] == all_reduce(what, topology, 1 << 18)
    assert all(one.seconds <= other.seconds for one, other in pairwise(runs))


def test_a_plan_for_other_ranks_is_refused() -> None:
    with pytest.raises(ValueError, match="the plan is for 4 ranks, the topology has 5"):
        all_reduce(alone(named("ring").plan(uniform(4, 2, 1e9))), uniform(5, 2, 1e9), 4096)


def test_nothing_depends_on_the_machine_that_simulates() -> None:
    """The simulator has no clock, no thread, no socket and no random number of its own."""
    sources = Path(__file__).parents[2] / "engine" / "simulate"
    included = {line for file in sources.rglob("*.?pp") for line in file.read_text().splitlines() if "#include" in line}
    forbidden = (
        "<chrono>",
        "<ctime>",
        "<thread>",
        "<atomic>",
        "<random>",
        "<unordered_set>",
        "<sys/",
        "link/",
        "measure/",
    )
    assert included
    assert not [line for line in included if any(word in line for word in forbidden)]
