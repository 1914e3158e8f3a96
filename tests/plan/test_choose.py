"""What is chosen for which size, why, and in what form the engine gets it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from counting import calls
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import GBIT, link, machines, on_cpus, trees

from paceline.plan import Plan, choose, pick
from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.between import EXCHANGED_BYTES
from paceline.plan.broadcast_chain import broadcast_chain
from paceline.plan.broadcast_tree import broadcast_tree
from paceline.plan.choose import COLLECTIVES, NO_LIMIT, ONE_SHOT_SLOT
from paceline.plan.cost import cost
from paceline.plan.ring import ring
from paceline.plan.turned import turned
from paceline.plan.verify import PlanError, verify, verify_blocks
from paceline.plan.wire import from_wire, to_wire
from paceline.runtime.plans import plans
from paceline.topology import Node, Topology, read

KIB = 1024
TOPOLOGIES = Path(__file__).parents[2] / "docs" / "topologies"
SMALL = (*range(1, 18), 33)


def alike(size: int, one_machine: bool) -> Topology:
    """One machine, or machines of up to 3 ranks."""
    if one_machine or size == 1:
        return Topology("one", Node("machine", "m", None, (Node("rank", "", link(10)),) * size))
    sizes = [3] * (size // 3) + ([size % 3] if size % 3 else [])
    return machines([1, 1] if size == 2 else [2, 1] if size == 3 else sizes, [1.0] * max(2, len(sizes)), latency=5e-5)


every_case = pytest.mark.parametrize(
    "topology",
    [alike(size, shared) for size in (*range(1, 34), 64) for shared in (True, False)],
    ids=lambda topology: f"{topology.name}-{topology.world}",
)


def leaves(thing: object) -> Iterator[object]:
    if isinstance(thing, tuple):
        for part in thing:
            yield from leaves(part)
    else:
        yield thing


@every_case
def test_limits_rise_and_the_last_has_none(topology: Topology) -> None:
    for entries in plans(topology).values():
        limits = [limit for limit, *_ in entries]
        assert limits[-1] == NO_LIMIT == -1
        assert all(limit > 0 for limit in limits[:-1])
        assert all(before < after for before, after in pairwise(limits[:-1]))


@every_case
def test_every_choice_has_a_reason_in_one_sentence(topology: Topology) -> None:
    for collective in COLLECTIVES:
        for choice in choose(collective, topology):
            assert choice.reason[0].isupper()
            assert choice.reason.endswith(".")
            assert ". " not in choice.reason
            assert "\n" not in choice.reason


def apart(topology: Topology, ranks: list[int], plan: Plan) -> bool:
    """Whether no two holders in the last level share a machine, so that all messages are copied out at once."""
    machine = {ranks[place]: node for node, places in topology.machines() for place in places}
    holders = plan.levels[-1][0].holders
    return len({machine[rank] for rank in holders}) == len(holders)


def check_entries(topology: Topology, ranks: list[int], one_machine: bool, algorithm: str | None = None) -> None:
    size = topology.world
    for collective, entries in plans(topology, ranks, algorithm).items():
        for limit, name, one_shot, _chunk, _under_way, levels in entries:
            plan = from_wire(size, name, levels)
            owners = verify(plan)
            if collective == "all_gather":
                verify_blocks(plan)
            if "broadcast" in collective:
                assert [owner for _, owner in owners] == [0]
            if one_shot:
                shown = limit // size if collective == "all_gather" else limit
                assert 0 < shown <= (ONE_SHOT_SLOT if one_machine else EXCHANGED_BYTES)
                assert one_machine or apart(topology, ranks, plan)
                assert len(owners) == 1 or collective == "all_gather"
                assert len(levels) == 1 or not one_machine
            if algorithm is not None and collective == "all_reduce" and not one_machine and size > 1:
                assert (limit, name, one_shot) == (NO_LIMIT, algorithm, False)
            assert {type(leaf) for leaf in leaves(levels)} <= {int}
            assert all(leaf < 1 << 63 for leaf in leaves(levels) if isinstance(leaf, int))


@pytest.mark.parametrize("one_machine", [True, False])
@pytest.mark.parametrize("size", SMALL)
def test_what_the_engine_gets_is_proven(size: int, one_machine: bool) -> None:
    check_entries(alike(size, one_machine), list(range(size)), one_machine)


@pytest.mark.verify
@settings(max_examples=50)
@given(trees(most=40), st.sampled_from([None, *ALGORITHMS]), st.randoms())
def test_what_the_engine_gets_is_proven_on_every_tree(topology: Topology, algorithm: str | None, order: Random) -> None:
    ranks = list(range(topology.world))
    order.shuffle(ranks)
    check_entries(topology, ranks, len(list(topology.machines())) == 1, algorithm)


@pytest.mark.verify
@settings(max_examples=50)
@given(trees(most=40))
def test_the_choice_is_never_dearer_than_the_ring(topology: Topology) -> None:
    """By more than the 0.5 % within which plans count as equal, above 64 KiB 5 %."""
    for choice in choose("all_reduce", topology):
        if choice.predicted:
            predicted = dict(choice.predicted)
            assert predicted[choice.plan.name] <= min(predicted.values()) * (
                1.005 if choice.nbytes <= 64 * KIB else 1.05
            )
            assert predicted.keys() - {"exchange"} == ALGORITHMS.keys()
            assert predicted["ring"] == pytest.approx(cost(ring(topology.world), topology, choice.nbytes).seconds)


@pytest.mark.parametrize(
    ("collective", "size", "expected"),
    [
        ("all_reduce", 2, {8: "one_shot", 64 * KIB: "one_shot", 64 * KIB + 1: "direct", 1 << 30: "direct"}),
        ("all_gather", 4, {8: "one_shot", 16 * KIB: "one_shot", 16 * KIB + 1: "direct"}),
        ("broadcast", 4, {8: "one_shot", 4 * KIB: "one_shot", 1 << 30: "flat"}),
        ("broadcast", 5, {8: "one_shot", 64 * KIB + 1: "binomial"}),
    ],
)
def test_thresholds_on_one_machine(collective: str, size: int, expected: dict[int, str]) -> None:
    assert {nbytes: pick(collective, alike(size, True), nbytes).name for nbytes in expected} == expected


@pytest.mark.parametrize(
    ("topology", "expected"),
    [
        (
            machines((2, 3), (0.5, 0.5), latency=5e-5),
            {8: "exchange", 4 * KIB: "exchange", 1 << 20: "paceline", 1 << 30: "paceline"},
        ),
        # In one chunk the slow machine has to own its part; in many its link is better kept for what it must carry.
        (machines((3, 3, 4), (0.5, 0.5, 0.25), latency=5e-5), {64 * KIB: "flexreduce", 32 << 20: "paceline"}),
        (machines((32, 32), (1, 1), latency=5e-5), {8: "halving_doubling", 32 << 20: "paceline"}),
    ],
)
def test_choices_between_machines(topology: Topology, expected: dict[int, str]) -> None:
    assert {nbytes: pick("all_reduce", topology, nbytes).name for nbytes in expected} == expected
    assert {pick("all_gather", topology, 1 << 30).name, pick("broadcast", topology, 8).name} == {"tree"}


def test_eight_machines_on_two_cpus_send_fewer_messages() -> None:
    """Measured at 4 KiB: double_tree 370 us, paceline 700."""
    topology = read(TOPOLOGIES / "1x8-one-slow.yaml")
    assert pick("all_reduce", on_cpus(topology, 2), 4 * KIB).name == "double_tree"
    few, many = (dict(pick("all_reduce", on_cpus(topology, cpus), 2 * KIB).predicted) for cpus in (2, 8))
    assert few["tree"] == many["tree"]
    assert few["paceline"] > 2 * many["paceline"]


@pytest.mark.parametrize("count", [3, 4, 8, 200])
def test_a_large_broadcast_goes_from_machine_to_machine(count: int) -> None:
    """In a tree the root's link would carry it once for every step."""
    topology = machines([1] * count, [0.5] * count, latency=5e-5)
    names = {nbytes: pick("broadcast", topology, nbytes).name for nbytes in (8, 1 << 30)}
    assert names == {8: "tree", 1 << 30: "chain"}


def test_a_turned_broadcast_is_chosen_by_what_it_costs_from_other_roots() -> None:
    """Of three machines: from its end the chain's links carry the data once, from its middle they do so twice, as the
    tree's do from its own root; from others the tree's do so once or twice as well."""
    topology = machines([1, 1, 1], [0.5] * 3, latency=5e-5)
    nbytes = 1 << 30
    for plan in (broadcast_tree(topology, 0), broadcast_chain(topology, 0)):
        assert [cost(turned(plan, root), topology, nbytes).all_gather.rest for root in range(3)] == pytest.approx(
            [times / (0.5 * GBIT) for times in {"tree": (2, 1, 1), "chain": (1, 2, 1)}[plan.name]]
        )
    predicted = dict(pick("turned_broadcast", topology, nbytes).predicted)
    assert predicted["tree"] < predicted["chain"]


def test_a_single_rank_has_nothing_to_do() -> None:
    nothing = {name: [(-1, "none", False, 0, 4, ())] for name in COLLECTIVES}
    assert plans(alike(1, True)) == plans(machines((1,), (1,))) == nothing


def test_bad_requests() -> None:
    with pytest.raises(ValueError, match="'alltoall', but plans exist for all_reduce"):
        choose("alltoall", alike(2, True))
    with pytest.raises(ValueError, match="'best' is no algorithm; there are ring"):
        choose("all_reduce", alike(2, False), algorithm="best")


@given(st.integers(1, 33), st.booleans(), st.sampled_from(COLLECTIVES))
def test_wire_form_round_trips(size: int, one_machine: bool, collective: str) -> None:
    for choice in choose(collective, alike(size, one_machine)):
        plan = choice.plan
        assert from_wire(size, plan.name, to_wire(plan)) == plan


def test_plans_are_values() -> None:
    assert ring(5) == ring(5)
    assert hash(ring(5)) == hash(ring(5))
    with pytest.raises(FrozenInstanceError):
        Plan(1, "none", ()).world = 2  # type: ignore[misc]


@pytest.mark.parametrize("sizes", [[1] * 64, [4] * 16, [*range(1, 11), 9], [32, 32]])
def test_64_ranks_are_planned_in_a_million_calls(sizes: list[int]) -> None:
    assert calls(lambda: plans(machines(sizes, [1.0] * len(sizes), latency=5e-5))) < 1_000_000


@pytest.mark.parametrize("machine", [1, 4, 16])
def test_twice_the_ranks_are_about_twice_the_work(machine: int) -> None:
    def work(ranks: int) -> int:
        sizes = [machine] * (ranks // machine)
        return calls(lambda: plans(machines(sizes, [1.0] * len(sizes), latency=5e-5)))

    assert work(128) < 2.5 * work(64)


def test_ranges_too_fine_for_the_engine_are_not_chosen() -> None:
    """FlexReduce needs the least common multiple of all racks' fan-outs, here the product of the first 16 primes."""
    racks = tuple(
        Node("switch", f"rack {size}", link(10), machines([1] * size, [1.0] * size).root.children)
        for size in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53)
    )
    topology = Topology("hall", Node("switch", "top", None, racks))
    flexreduce = ALGORITHMS["flexreduce"].plan(topology)
    with pytest.raises(PlanError, match="finer than 64 bits"):
        to_wire(flexreduce)
    for choice in choose("all_reduce", topology):
        assert "flexreduce" not in dict(choice.predicted)
        assert to_wire(choice.plan)
