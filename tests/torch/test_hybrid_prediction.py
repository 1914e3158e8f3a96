"""What a step takes and needs, predicted: orders as torch's own, bubbles with a formula, memory, the best shape."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline.calibration.torch import COMES_ALONG, KEPT_FREE
from paceline.plan.codecs import CODECS
from paceline.topology import Topology
from paceline.topology.discover import Placement
from paceline.topology.file import parse
from paceline.topology.tree import Cpus
from paceline.torch.compat import PIPELINES, torch_version
from paceline.torch.partitioned.budget import Activations, Budget
from paceline.torch.partitioned.codecs import Codecs
from paceline.torch.partitioned.crowds import clock_of
from paceline.torch.partitioned.cut import CannotCut, Chain, Weight
from paceline.torch.partitioned.layout import Layout, SideBySide
from paceline.torch.partitioned.predicted.decide import decide
from paceline.torch.partitioned.predicted.memory import memory
from paceline.torch.partitioned.predicted.orders import Action, in_flight, orders
from paceline.torch.partitioned.predicted.predict import predict
from paceline.torch.partitioned.predicted.shape import Shape, Wanted
from paceline.torch.partitioned.predicted.speeds import Speeds
from paceline.torch.partitioned.predicted.timeline import Timeline, timeline
from paceline.torch.partitioned.schedule import Schedule, find_schedule
from paceline.torch.partitioned.update import Update, measured_update

pytestmark = pytest.mark.skipif(torch_version() < PIPELINES, reason="torch's pipelines are too old")

SCHEDULES = ("1F1B", "GPipe", "Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV")
MIB = 1 << 20


def schedules(names: Sequence[str] = SCHEDULES) -> st.SearchStrategy[tuple[Schedule, int]]:
    """A schedule and microbatches that it allows."""

    def made(name: str, ranks: int, rounds: int) -> tuple[Schedule, int]:
        schedule = find_schedule(name, ranks)
        return schedule, schedule.stages * rounds

    return st.builds(made, st.sampled_from(names), st.integers(1, 4), st.integers(1, 3))


def network(machines: int, ranks: int, uplink: str = "1 Gbit/s", cpus: int | None = None) -> Placement:
    """Machines of so many ranks, which are containers of one host with so many CPUs if these are given."""
    each = "\n".join(
        f"  - {{machine: m{number}, ranks: {ranks}, uplink: {uplink}, latency: 50 us}}" for number in range(machines)
    )
    topology: Topology = parse(f"name: some\nchildren:\n{each}\n")
    if cpus is not None:
        root = topology.root
        shared = replace(root, children=tuple(replace(node, cpus=Cpus("host", cpus)) for node in root.children))
        topology = Topology("some", shared)
    return Placement(topology, tuple(range(machines * ranks)))


def even(calls: int, weight: float = 0.0, crossing: float = 0.0, samples: int = 1) -> Chain:
    """Calls that are all alike: 1 ms forward and 2 ms backward of each sample, 1 MiB saved."""
    return Chain(
        [0.001 * samples] * calls,
        [0.002 * samples] * calls,
        [MIB * samples] * calls,
        [0.0] * calls,
        [crossing * samples] * (calls + 1),
        [crossing * samples] * (calls + 1),
        [[Weight(number, weight)] for number in range(calls)],
    )


@given(schedules())
@settings(deadline=None)
def test_orders_do_everything_once(found: tuple[Schedule, int]) -> None:
    schedule, microbatches = found
    for rank, order in enumerate(orders(schedule, microbatches)):
        own = {stage for stage, there in enumerate(schedule.rank_of) if there == rank}
        forwards = [(action.stage, action.microbatch) for action in order if action.kind == "F"]
        assert sorted(forwards) == [(stage, number) for stage in sorted(own) for number in range(microbatches)]
        backwards = [action for action in order if action.kind in ("B", "I")]
        assert sorted((one.stage, one.microbatch) for one in backwards) == sorted(forwards)
        halves = [sorted((one.stage, one.microbatch) for one in order if one.kind == kind) for kind in "IW"]
        assert halves[0] == halves[1]
        assert all(action.asked <= place for place, action in enumerate(order))


class Recording:
    """A stage without data that notes what torch's schedule does."""

    def __init__(self, stage_index: int, num_stages: int) -> None:
        self.stage_index, self.num_stages = stage_index, num_stages
        self.is_last, self.has_backward, self.submod, self.done = False, True, None, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        return (lambda *_, **__: []) if name.endswith("_ops") else (lambda *_, **__: None)

    def forward_one_chunk(self, number: int, *_: Any, **__: Any) -> None:
        self.done.append(("F", number))

    def backward_one_chunk(self, number: int, *_: Any, **__: Any) -> None:
        self.done.append(("B", number))


@pytest.mark.parametrize("name", ["1F1B", "GPipe"])
@pytest.mark.parametrize(("stages", "microbatches"), [(1, 3), (2, 2), (3, 7), (4, 8)])
def test_orders_are_those_that_torch_carries_out(name: str, stages: int, microbatches: int) -> None:
    schedule = find_schedule(name, stages)
    for rank, order in enumerate(orders(schedule, microbatches)):
        stage = Recording(rank, stages)
        made = cast(Any, schedule.make([cast(Any, stage)], microbatches, cast(Any, None)))
        with patch.object(made, "_initialize_stage", lambda *_: None):
            made._step_microbatches([()] * microbatches, [{}] * microbatches)
        assert [(action.kind, action.microbatch) for action in order] == stage.done


def drawn(schedule: Schedule, microbatches: int, takes: Any, arrives: float = 0.0) -> Timeline:
    return timeline(orders(schedule, microbatches), schedule.rank_of, takes, lambda _: arrives, speeds(schedule.ranks))


def speeds(ranks: int, cpus: int | None = None) -> Speeds:
    """Of ranks that share a machine with so many CPUs, or have one each."""
    return Speeds(Layout(ranks, 1, tuple(range(ranks))), network(1, ranks, cpus=cpus))


def equal(action: Action) -> float:
    return {"F": 1.0, "B": 2.0, "I": 1.0, "W": 1.0}[action.kind]


@given(schedules(["1F1B", "GPipe"]))
def test_the_bubble_of_equal_stages(found: tuple[Schedule, int]) -> None:
    schedule, microbatches = found
    steps = drawn(schedule, microbatches, equal)
    stages = schedule.stages
    assert steps.seconds == pytest.approx(3 * (microbatches + stages - 1))
    assert steps.bubble == pytest.approx((stages - 1) / (stages - 1 + microbatches))


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_zero_bubble_schedules_have_less_of_it(ranks: int) -> None:
    usual = drawn(find_schedule("1F1B", ranks), 4 * ranks, equal)
    split = drawn(find_schedule("ZBVZeroBubble", ranks), 4 * ranks, lambda action: equal(action) / 2)
    assert split.bubble < usual.bubble / 2


@given(schedules(), st.floats(0, 3), st.integers(0, 2**30))
@settings(deadline=None)
def test_nothing_begins_before_what_it_needs(found: tuple[Schedule, int], arrives: float, seed: int) -> None:
    schedule, microbatches = found
    takes = lambda action: 1.0 + (seed >> (action.stage + action.microbatch) % 30 & 1)  # noqa: E731
    steps = drawn(schedule, microbatches, takes, arrives)
    at = {(span.action.kind, span.action.stage, span.action.microbatch): span for all_ in steps.spans for span in all_}
    for spans in steps.spans:
        for before, after in pairwise(spans):
            assert after.begin >= before.end
    for (kind, stage, number), span in at.items():
        before = at.get(("F", stage - 1, number)) if kind == "F" else at.get(("F", stage, number))
        if kind in ("B", "I") and stage + 1 < schedule.stages:
            before = at.get(("B", stage + 1, number)) or at[("I", stage + 1, number)]
        apart = before and schedule.rank_of[before.action.stage] != schedule.rank_of[stage]
        assert before is None or span.begin >= before.end + (arrives if apart else 0)


def test_what_1f1b_and_gpipe_keep() -> None:
    kept = {
        name: [in_flight(order, stage) for stage, order in enumerate(orders(find_schedule(name, 4), 8))]
        for name in ("1F1B", "GPipe")
    }
    assert kept == {"1F1B": [4, 3, 2, 1], "GPipe": [8, 8, 8, 8]}


def shape(partitions: int, replicas: int, microbatches: int, schedule: str = "1F1B", batch: int = 0) -> Shape:
    places = Layout(partitions, replicas, tuple(range(partitions * replicas)))
    return Shape(places, find_schedule(schedule, partitions), microbatches, batch or microbatches)


def test_memory() -> None:
    alone = Budget(states=1)
    chain = even(4, weight=MIB, crossing=1024)
    lasting = COMES_ALONG + 2 * MIB * 3 + 8 * 1024  # weights, and what comes from the other stage
    passing = (MIB + 2 * 2 * MIB, MIB + 2 * MIB)  # a weight's gradient, and two microbatches' activations or one's
    expected = tuple(round(lasting + KEPT_FREE * each) for each in passing)
    assert memory(chain, [2, 4], shape(2, 1, 8), alone).nbytes == expected
    all_of_them = lasting + KEPT_FREE * (MIB + 8 * 2 * MIB)
    assert memory(chain, [2, 4], shape(2, 1, 8, "GPipe"), alone).nbytes[1] == round(all_of_them)
    in_arena = (
        memory(chain, [2, 4], shape(2, 2, 8), alone).nbytes[0] - memory(chain, [2, 4], shape(2, 1, 8), alone).nbytes[0]
    )
    assert in_arena == 2 * MIB
    tied = Chain(
        *(getattr(chain, name) for name in ("forward", "backward", "saved", "made", "up", "down")),
        [[Weight(0, MIB)]] * 4,
    )
    assert memory(tied, [2, 4], shape(2, 1, 8), alone).nbytes[1] == expected[1] - MIB * 3


def test_memory_that_is_short() -> None:
    """First what is freed goes back to the system, and then less is kept, of which the predicted step knows."""
    chain = even(64, crossing=1024)
    needs = memory(chain, [32, 64], shape(2, 1, 8), Budget())
    assert needs.short == (False, False)
    assert all(len(some) == 1 and some[0].activations == "keep" for some in needs.segments)
    for share, kept in ((0.9, 1.0), (0.3, 0.5)):
        budget = Budget(COMES_ALONG + share * KEPT_FREE * 2 * 32 * MIB)
        short = memory(chain, [32, 64], shape(2, 1, 8), budget)
        assert short.short[0]
        assert max(short.nbytes) <= budget.memory
        keeps = [one for one in short.segments[0] if one.activations == "keep"]
        assert sum(one.end - one.begin for one in keeps) == pytest.approx(32 * kept, abs=3)
        steps = [predict(chain, shape(2, 1, 8), network(1, 2), [32, 64], one) for one in (Budget(), budget)]
        assert (steps[1].seconds > steps[0].seconds) == (kept < 1)
        assert steps[1].stages[0].restored == pytest.approx(0.001 * 32 * (1 - steps[1].stages[0].kept))
    for available, has in ((COMES_ALONG + MIB, "20 MiB"), (MIB, "1 MiB")):
        with pytest.raises(CannotCut, match=f"no cut into 2 stages fits into memory: each rank has {has}, of which 19"):
            best(network(1, 2), lambda samples: even(8, weight=MIB, samples=samples), available, "recompute")


def test_a_step_is_its_bubble_and_what_crosses() -> None:
    slow = network(2, 1, "8 Mbit/s")  # 1 byte in 1 us
    chain = even(4, crossing=1000)
    alone = predict(chain, shape(2, 1, 1), network(1, 2), [2, 4], Budget()).seconds
    apart = predict(chain, shape(2, 1, 1), slow, [2, 4], Budget()).seconds
    assert alone == pytest.approx(4 * 0.003, rel=1e-3)
    assert apart == pytest.approx(4 * 0.003 + 2 * (0.001 + 0.0001), rel=1e-2)


def seconds(placement: Placement, partitions: int, replicas: int) -> float:
    """The end of the last backward, of 8 calls and one microbatch."""
    ends = [8 * (stage + 1) // partitions for stage in range(partitions)]
    return predict(even(8), shape(partitions, replicas, 1), placement, ends, Budget()).steps.seconds


def test_ranks_without_a_cpu_of_their_own_are_slower_while_others_compute() -> None:
    crowded, roomy = network(2, 2, cpus=2), network(2, 2)
    assert seconds(crowded, 1, 4) == pytest.approx(2 * seconds(roomy, 1, 4))
    assert seconds(crowded, 4, 1) == seconds(roomy, 4, 1)  # of which one computes at a time
    assert seconds(crowded, 2, 2) == seconds(roomy, 2, 2)
    assert seconds(network(2, 2, cpus=4), 1, 4) == seconds(roomy, 1, 4)


@pytest.mark.parametrize(("partitions", "replicas", "slower"), [(1, 4, 2), (2, 2, 1)])
def test_replicas_update_their_weights_at_the_same_time(partitions: int, replicas: int, slower: int) -> None:
    chain, budget = even(8, weight=1000.0), Budget(update=Update(0.001, 0.0))
    ends = [8 * (stage + 1) // partitions for stage in range(partitions)]
    found = predict(chain, shape(partitions, replicas, 1), network(2, 2, cpus=2), ends, budget)
    assert found.updates == pytest.approx([0.001 * slower * 8 / partitions] * partitions)


def test_ranks_that_wait_for_cpus_are_timed_by_what_they_use() -> None:
    assert clock_of(network(2, 2, cpus=3), 1) is time.thread_time
    assert clock_of(network(2, 2, cpus=4), 1) is clock_of(network(2, 2), 1) is time.perf_counter


@given(schedules(), st.integers(1, 3), st.integers(0, 2**30))
@settings(deadline=None)
def test_shared_cpus_are_never_idle_while_more_ranks_compute(found: tuple[Schedule, int], cpus: int, seed: int) -> None:
    schedule, microbatches = found
    takes = lambda action: 1.0 + (seed >> (action.stage + action.microbatch) % 30 & 1)  # noqa: E731
    order = orders(schedule, microbatches)
    steps = timeline(order, schedule.rank_of, takes, lambda _: 0.0, speeds(schedule.ranks, cpus))
    moments = sorted({moment for spans in steps.spans for span in spans for moment in (span.begin, span.end)})
    done = 0.0
    for begin, end in pairwise(moments):
        computing = sum(span.begin <= begin and end <= span.end for spans in steps.spans for span in spans)
        done += min(computing, cpus) * (end - begin)
    assert done == pytest.approx(sum(takes(action) for some in order for action in some))


def test_exchanges_hide_behind_backwards() -> None:
    """Four buckets of 25 MiB, each of which takes longer than the backward before it, over a link that they share."""
    chain = even(4, weight=25 * MIB)
    one = predict(chain, shape(1, 2, 1), network(2, 1), [4], Budget())
    (whole,) = one.exchanged
    bucket = 25 * MIB / 125e6
    assert whole > one.steps.seconds
    assert 4 * bucket <= whole - 0.004 - 0.002 < 4 * bucket * 1.1
    none = predict(even(4), shape(1, 2, 1), network(2, 1), [4], Budget())
    assert none.exchanged == (none.steps.seconds,)
    assert predict(chain, shape(2, 1, 2), network(2, 1), [2, 4], Budget()).exchanged[1] == pytest.approx(
        0.006 * 2 + 0.002, rel=0.1
    )


def test_the_optimizer_takes_its_time_for_each_weight_once() -> None:
    """The partition with the most weights decides, once its own gradients are there."""
    weights = [[Weight(0, 1000.0)], [Weight(0, 1000.0), Weight(1, 500.0)], [Weight(2, 100.0)], [Weight(3, 1e9, False)]]
    chain = replace(even(4), weights=weights)
    budget = Budget(update=Update(0.002, 1e-5))
    found = predict(chain, shape(2, 1, 2), network(1, 2), [2, 4], budget)
    assert found.updates == (pytest.approx(0.004 + 0.015), pytest.approx(0.002 + 0.001))
    assert found.seconds == pytest.approx(found.exchanged[0] + 0.019)
    assert found.until_exchanged == predict(chain, shape(2, 1, 2), network(1, 2), [2, 4], Budget()).seconds


def test_a_heavy_update_is_divided_among_partitions() -> None:
    """Inside a machine without a bubble to speak of: two replicas both update all weights, two partitions half."""
    chain = lambda samples: even(8, weight=MIB, samples=samples)  # noqa: E731
    for update, partitions in ((Update(), 1), (Update(0.0, 1e-7), 2)):
        wanted = Wanted(None, None, None, "1F1B", 64, True)
        placement = network(1, 2)
        found = decide(wanted.shapes(placement), chain, placement, Budget(update=update))
        assert found.best.shape.layout.partitions == partitions


def test_a_measured_update_takes_time() -> None:
    for available in (math.inf, float(MIB)):
        update = measured_update(available)
        assert update.per_weight > 0
        assert update.seconds([Weight(0, 4.0 * MIB), Weight(0, 4.0 * MIB), Weight(1, 8.0, False)]) == pytest.approx(
            update.per_weight + 4 * MIB * update.per_byte
        )


def test_codecs_save_time_between_machines_alone() -> None:
    bf16, int8 = CODECS["bf16"], CODECS["int8"]
    cuts, chain = replace(shape(2, 1, 1), codecs=Codecs(cuts="bf16")), even(4, crossing=1000)
    crossing = 1000 * (1e-6 / bf16.ratio + bf16.seconds) + 0.0001
    apart = predict(chain, cuts, network(2, 1, "8 Mbit/s"), [2, 4], Budget()).seconds
    assert apart == pytest.approx(4 * 0.003 + 2 * crossing, rel=1e-2)
    near = network(1, 2)
    assert predict(chain, cuts, near, [2, 4], Budget()) == replace(
        predict(chain, shape(2, 1, 1), near, [2, 4], Budget()), shape=cuts
    )
    heavy, far = even(4, weight=25 * MIB), network(2, 1, "100 Mbit/s")
    plain, encoded = (
        predict(heavy, replace(shape(1, 2, 1), codecs=Codecs(gradients=name)), far, [4], Budget())
        for name in (None, "int8")
    )
    exchange = [one.exchanged[0] - 0.004 - 0.002 for one in (plain, encoded)]
    assert exchange[0] / exchange[1] == pytest.approx(int8.ratio, rel=0.1)
    assert encoded.memory[0] - plain.memory[0] == pytest.approx(4 * 25 * MIB, abs=1)  # what encoding has lost


def best(placement: Placement, chain: Any, available: float = 1e12, beyond: Activations = "keep", **asked: Any) -> Any:
    usual = {"partitions": None, "replicas": None, "microbatches": None, "schedule": "1F1B", "batch": 64}
    wanted = Wanted(**{**usual, "together": True, **asked})
    return decide(wanted.shapes(placement), chain, placement, Budget(available, beyond))


def test_what_is_heavy_stays_inside_a_machine() -> None:
    """Heavy weights and light activations: partitions. The other way round: replicas."""
    slow = network(2, 1, "200 Mbit/s")
    weights = best(slow, lambda samples: even(8, weight=20 * MIB, crossing=1000, samples=samples))
    assert weights.best.shape.layout == Layout(2, 1, (0, 1))
    assert weights.best.shape.microbatches > 2
    activations = best(slow, lambda samples: even(8, weight=1000, crossing=MIB, samples=samples))
    assert activations.best.shape.layout == Layout(1, 2, (0, 1))
    assert "1 × 2 with 1 microbatch by 1F1B: a step is predicted to take" in activations.reason
    assert "with 2 × 1" in activations.reason


def test_the_choice_is_the_quickest_that_fits() -> None:
    placement = network(2, 2)
    chain = lambda samples: even(8, weight=2 * MIB, crossing=30_000, samples=samples)  # noqa: E731
    free = best(placement, chain)
    layouts = {one.shape.layout for one in free.predictions}
    ranks = (0, 1, 2, 3)
    sides: tuple[SideBySide, ...] = ("partitions", "replicas")
    assert layouts == {Layout(1, 4, ranks), *(Layout(2, 2, ranks, side) for side in sides), Layout(4, 1, ranks)}
    assert free.best.seconds <= 1.01 * min(one.seconds for one in free.predictions)
    needs = sorted(max(one.memory) for one in free.predictions)
    tight = best(placement, chain, available=needs[2])
    assert max(tight.best.memory) <= needs[2]
    assert "did not fit" in tight.reason
    with pytest.raises(CannotCut):
        best(placement, chain, available=MIB)
    some = best(placement, chain, partitions=2, microbatches=4)
    assert [str(one.shape) for one in some.predictions] == 2 * ["2 × 2 with 4 microbatches"]
    alone = best(network(1, 4), chain, partitions=2, microbatches=4)
    assert [str(one.shape) for one in alone.predictions] == ["2 × 2 with 4 microbatches"]


@pytest.mark.parametrize("ranks", [(0, 1, 2, 3), (2, 0, 3, 1)], ids=str)
@pytest.mark.parametrize("heavy", ["weights", "activations"])
def test_what_is_heavy_does_not_cross_between_machines(heavy: str, ranks: tuple[int, ...]) -> None:
    """2 × 2 on two machines of two ranks: either gradients cross, or activations do."""
    placement = Placement(network(2, 2, "200 Mbit/s").topology, ranks)
    machines = [{ranks[0], ranks[1]}, {ranks[2], ranks[3]}]
    weight, crossing = (5 * MIB, 1000) if heavy == "weights" else (1000, MIB)
    found = best(
        placement,
        lambda samples: even(8, weight=weight, crossing=crossing, samples=samples),
        partitions=2,
        microbatches=8,
    )
    layout = found.best.shape.layout
    assert layout.side_by_side == ("replicas" if heavy == "weights" else "partitions")
    replicas = [{layout.rank(replica, partition) for partition in range(2)} for replica in range(2)]
    partitions = [{layout.rank(replica, partition) for replica in range(2)} for partition in range(2)]
    assert machines == (partitions if heavy == "weights" else replicas)
    assert all(layout.rank(*layout.place(rank)) == rank for rank in ranks)
    other = max(one.seconds for one in found.predictions)
    assert other > 1.5 * found.best.seconds
    assert "share machines where they can (with the" in found.reason
