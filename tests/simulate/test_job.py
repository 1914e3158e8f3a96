"""What must hold of a job in virtual time, whatever the policy."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.settings.parsers import POLICIES
from paceline.simulate import Compute, Cores, Gradient, Job, Step, Thread, Transfer, steps
from paceline.simulate.job import PARTS, in_order, moments

SILENT = Thread(wake=0.0, ring=0.0, message=0.0)
"""A thread that is always there at once."""


CYCLE = 50e-6
"""Seconds."""


def job(policy: str = "board", **changes: object) -> Job:
    """Five ranks on two machines that submit one gradient after 10 ms, which takes 3 ms."""
    usual = Job(
        machine_of=(0, 0, 1, 1, 1),
        gradients=(Gradient("g", 1000, 1.0),),
        policy=policy,
        compute=Compute(seconds=0.010),
        thread=SILENT,
        transfer=Transfer(all_reduce=((4000.0, 0.003),), synchronise=0.0, latency=0.0),
        cycle_seconds=CYCLE,
    )
    return in_order(replace(usual, **changes))  # type: ignore[arg-type]


def first(what: Job, count: int, seed: int = 0) -> list[Step]:
    return list(islice(steps(what, seed), count))


def test_all_ranks_compute_longer_together() -> None:
    """10 ms of each rank, and either 20 ms more or, because no rank computes for less than nothing, 10 ms less."""
    compute = Compute(seconds=0.0, samples=(0.010,), together=(0.020, -0.030))
    found = first(job("graph", compute=compute), 40)
    assert {round(step.computation, 9) for step in found} == {0.030, 0.0}
    assert all(step.seconds == pytest.approx(step.computation + 0.003) for step in found), "a rank waited for another"


def test_ranks_draw_their_own_of_one_step() -> None:
    """Five ranks of two steps: one of them computes 30 ms in the one, another one 20 ms in the other."""
    rows = ((0.030, 0.001, 0.001, 0.001, 0.001), (0.002, 0.002, 0.002, 0.002, 0.020))
    found = first(job("graph", compute=Compute(seconds=0.0, steps=rows).on(5)), 40)
    assert {round(step.seconds, 9) for step in found} == {0.033, 0.023}


def numbered(machines: list[int]) -> list[int]:
    """The same machines, numbered in the order of their first ranks."""
    return [list(dict.fromkeys(machines)).index(machine) for machine in machines]


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    ranks = draw(st.integers(1, 9))
    count = draw(st.integers(1, 12))
    gradients = tuple(Gradient(f"g{i}", draw(st.integers(1, 1 << 20)), draw(st.floats(0.0, 1.0))) for i in range(count))
    return in_order(
        Job(
            machine_of=numbered(draw(st.lists(st.integers(0, 2), min_size=ranks, max_size=ranks))),
            gradients=gradients,
            policy=draw(st.sampled_from(POLICIES)),
            compute=Compute(
                seconds=draw(st.floats(0.0, 0.1)),
                delay=draw(st.floats(0.0, 0.05)),
                after=draw(st.floats(0.0, 0.01)),
            ),
            thread=Thread(
                oversleeps=draw(st.floats(0.0, 1.0)),
                oversleep=draw(st.floats(0.0, 0.01)),
            ),
            cores=Cores(
                cpus=draw(st.integers(0, 4)),
                threads=draw(st.integers(0, 4)),
                seconds=draw(st.floats(0.0, 0.1)),
                divided=draw(st.booleans()),
            ),
            transfer=Transfer(
                all_reduce=((0.0, draw(st.floats(0.0, 0.01))), (4e6, 0.02)),
                synchronise=draw(st.floats(0.0, 1e-3)),
                latency=draw(st.floats(0.0, 1e-3)),
            ),
            fusion_bytes=draw(st.sampled_from([1, 1 << 20, 64 << 20])),
            cycle_seconds=draw(st.sampled_from([1e-3, 5e-3])),
            waits=draw(st.sampled_from(["spin", "yield"])),
            awaits=draw(st.booleans()),
        )
    )


@pytest.mark.parametrize("policy", POLICIES)
def test_without_noise_a_step_is_its_computation_and_its_transfer(policy: str) -> None:
    """The very figures of the cost model, once what is negotiated is known."""
    for step in first(job(policy), 6)[3:]:
        # A polling policy looks once in a cycle, of which a synchronisation takes up to three.
        assert 0.013 - 1e-12 <= step.seconds <= 0.013 + 3 * CYCLE * (policy not in ("board", "graph")) + 1e-12
        assert (step.computation, step.transfer) == pytest.approx((0.010, 0.003), rel=1e-9)


@given(jobs(), st.integers(0, 1 << 60))
def test_the_parts_of_a_step_add_up_to_it(what: Job, seed: int) -> None:
    for step in first(what, 4, seed):
        assert min(getattr(step, part) for part in PARTS) >= -1e-12
        assert sum(getattr(step, part) for part in PARTS) == pytest.approx(step.seconds, rel=1e-9, abs=1e-12)
        assert step.batches >= 1


@given(jobs(), st.integers(0, 1 << 60))
def test_the_same_seed_gives_the_same_steps(what: Job, seed: int) -> None:
    assert first(what, 3, seed) == first(what, 3, seed)


def test_another_seed_gives_other_steps() -> None:
    noisy = job("board", compute=Compute(seconds=0.010, delay=0.005))
    assert first(noisy, 3, 1) != first(noisy, 3, 2)


@pytest.mark.parametrize("policy", POLICIES)
def test_policies_meet_the_same_delays(policy: str) -> None:
    noisy = Compute(seconds=0.010, delay=0.005)
    delays = [step.delay for step in first(job(policy, compute=noisy), 3)]
    assert delays == pytest.approx([step.delay for step in first(job("board", compute=noisy), 3)], rel=1e-9)


FULL = Cores(cpus=2, threads=2, seconds=0.010)
"""A rank whose program wants all of its CPUs while it computes."""
TIRED = Thread(oversleeps=0.5, oversleep=1e-3)


def total(what: Job, figure: str) -> float:
    return sum(getattr(step, figure) for step in first(what, 60)[3:])


def test_a_thread_that_spins_slows_the_program_down_where_it_takes_its_cpu() -> None:
    noisy = Compute(seconds=0.010, delay=0.005)

    def crowded(policy: str, figure: str, **cores: object) -> float:
        divided = replace(FULL, **cores)  # type: ignore[arg-type]
        return total(job(policy, compute=noisy, thread=TIRED, cores=divided, cycle_seconds=5e-3), figure)

    assert crowded("nonblocking", "spinning") == crowded("board", "spinning") == crowded("graph", "spinning") == 0
    assert crowded("cycle", "spinning") > 0
    alone = crowded("board", "delay")
    assert alone == pytest.approx(crowded("nonblocking", "delay"), rel=1e-9)
    assert alone < crowded("cycle", "delay") <= 2 * alone
    for more in ({"divided": True}, {"cpus": 3}, {"cpus": 0}, {"seconds": 0.0}):
        assert crowded("cycle", "delay", **more) == pytest.approx(alone, rel=1e-9), more


def test_a_short_sleep_is_longer_while_all_cpus_are_busy() -> None:
    """Cycles of 3 ms leave a thread too little to take a CPU from another one, and those of 6 ms enough."""
    for cycle, late in ((3e-3, True), (6e-3, False)):
        what = job("nonblocking", cores=FULL, cycle_seconds=cycle)
        slices = 0.012 * total(what, "cycles")
        assert (0.0 < total(what, "oversleep") < slices) if late else total(what, "oversleep") == 0.0


def test_a_thread_that_yields_slows_nobody_down_and_hears_late() -> None:
    noisy = Compute(seconds=0.010, delay=0.005)

    def waits(how: str, figure: str) -> float:
        what = job("cycle", compute=noisy, thread=TIRED, cores=replace(FULL, seconds=1.0), cycle_seconds=5e-3)
        return total(replace(what, waits=how), figure)

    assert waits("yield", "delay") < waits("spin", "delay")
    assert waits("yield", "negotiation") > waits("spin", "negotiation")


def test_measured_samples_take_the_place_of_the_constant() -> None:
    what = job("board", compute=Compute(seconds=0.0, samples=(0.004, 0.007)))
    found = first(what, 40)
    assert {round(step.computation + step.last_rank, 6) for step in found} <= {0.004, 0.007}
    assert 0.004 < sum(step.computation for step in found) / len(found) < 0.007


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"machine_of": ()}, "at least one rank"),
        ({"machine_of": (0, -1)}, "numbered 0, 1, 2"),
        ({"machine_of": (0, 2)}, "2 comes where 1 would be the next"),
        ({"gradients": ()}, "at least one gradient"),
        ({"gradients": (Gradient("g", 1, 1.0), Gradient("g", 1, 1.0))}, 'two gradients are called "g"'),
        ({"gradients": (Gradient("g", 1, 1.5),)}, "a fraction of the computation from 0 to 1"),
        ({"compute": Compute(seconds=-1.0)}, "negative"),
        ({"cores": Cores(cpus=-1)}, "cannot have -1 CPUs or threads"),
        ({"cores": Cores(seconds=float("inf"))}, "not finite"),
        ({"compute": Compute(seconds=float("nan"))}, "not finite"),
        ({"compute": Compute(seconds=0.0, samples=(-1.0,))}, "negative"),
        ({"compute": Compute(seconds=0.0, together=(float("nan"),))}, "not finite"),
        ({"compute": Compute(seconds=0.0, samples=(0.1,) * 4, whole=True)}, "are not whole steps of 5 ranks"),
        ({"transfer": Transfer(all_reduce=(), synchronise=0.0, latency=0.0)}, "at least one point"),
        ({"transfer": Transfer(all_reduce=((2.0, 1.0), (1.0, 1.0)), synchronise=0.0, latency=0.0)}, "ascend"),
        ({"policy": "cycle", "cycle_seconds": 0.0}, "a cycle of more than 0 seconds"),
        ({"policy": "fastest"}, "no such policy: fastest"),
        ({"waits": "sleep"}, "no such wait: sleep"),
    ],
)
def test_what_makes_no_sense_gets_one_sentence(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence) as raised:
        first(job(**{"policy": "board"} | changes), 1)
    assert "\n" not in str(raised.value)


@given(jobs(), st.integers(0, 3))
def test_a_step_is_told_moment_by_moment(what: Job, number: int) -> None:
    step, told = first(what, number + 1)[number], moments(what, number)
    assert len(told.ready) == len(what.machine_of)
    assert len(told.batches) == step.batches
    assert sum(batch.requests for batch in told.batches) == len(what.gradients)
    assert sum(batch.nbytes for batch in told.batches) == sum(gradient.nbytes for gradient in what.gradients)
    before = 0.0
    for batch in told.batches:
        assert batch.issued <= batch.begun <= batch.over
        assert batch.begun >= before - 1e-12, "batches share the network one after the other"
        before = batch.over
    assert before + what.compute.after == pytest.approx(step.seconds)


def test_what_waits_for_earlier_batches_waits_for_the_network() -> None:
    """Two gradients of 3 ms each are ready after 5 and 6 ms; the second is issued when the first is through."""
    gradients = (Gradient("a", 1000, 0.5), Gradient("b", 1000, 0.6))
    for policy in POLICIES:
        what = job(policy, gradients=gradients, fusion_bytes=4000, compute=Compute(seconds=0.010))
        step = first(what, 4)[-1]
        assert step.computation == pytest.approx(0.006)
        assert step.transfer == pytest.approx(0.005, abs=3 * CYCLE), policy
        assert step.negotiation + step.peers <= 3 * CYCLE, policy
