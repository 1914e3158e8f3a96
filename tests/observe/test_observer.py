"""The observer's figures do not depend on when it looks, and it knows how much it missed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_ins import FakeCoordinator, FakeCounters, FakeEngine, FakeRecord, operation

from paceline.observe.annotations import Annotations
from paceline.observe.figures import Figures, decode, encode
from paceline.observe.news import News
from paceline.observe.observer import Observer, Source
from paceline.observe.periodic import seconds_to_next
from paceline.observe.rates import rates


def observer(engine: FakeEngine, annotations: Annotations | None = None, **coordinators: FakeCoordinator) -> Observer:
    by_channel = {int(name.removeprefix("c")): one for name, one in coordinators.items()}
    return following(engine, annotations or Annotations(engine.exposed_ns), lambda: by_channel)


def following(
    engine: FakeEngine, annotations: Annotations, coordinators: Callable[[], Mapping[int, Source]]
) -> Observer:
    return Observer(engine, coordinators, lambda: {5: ("group 0", 2)}, annotations, 0, 2, capacity=engine.capacity)


@settings(max_examples=40)
@given(st.lists(st.integers(0, 12), min_size=1, max_size=12), st.data())
def test_looking_often_or_seldom_finds_the_same(amounts: list[int], data: st.DataObject) -> None:
    """Operations end in any order between looks; the ring never runs over."""
    engine = FakeEngine(capacity=1000)
    one, heard = observer(engine), []
    one.follow(heard.append)
    begun, running = 0, set()
    for amount in amounts:
        for _ in range(amount):
            begun += 1
            running.add(begun)
            engine.rows.append(operation(begun, state="running", size=begun))
        for number in sorted(running):
            if data.draw(st.booleans()):
                running.discard(number)
                engine.rows[number - 1] = operation(number, size=number)
        one.look()
    found = one.figures()
    done = set(range(1, begun + 1)) - running
    assert (found.operations, found.unseen) == (begun, 0)
    assert found.bytes == sum(done)
    annotations = [event.id for news in heard for event in news.events]
    assert sorted(annotations) == sorted(done)


@given(st.integers(1, 50), st.lists(st.integers(1, 60), min_size=1, max_size=8))
def test_what_went_by_is_counted(capacity: int, amounts: list[int]) -> None:
    engine = FakeEngine(capacity=capacity, rows=[operation(1)])
    one = observer(engine)
    one.look()
    for amount in amounts:
        engine.rows += [operation(len(engine.rows) + 1 + n) for n in range(amount)]
        one.look()
    found = one.figures()
    assert found.operations == 1 + sum(amounts)
    assert found.unseen == sum(max(0, amount - capacity) for amount in amounts)
    assert found.bytes == 4096 * (found.operations - found.unseen)


def test_what_went_by_since_a_look_before_the_first_operation_is_counted() -> None:
    engine = FakeEngine(capacity=10, exposed=7_000_000)
    one = observer(engine)
    one.look()
    engine.rows += [operation(n) for n in range(1, 101)]
    found = one.figures()
    assert (found.operations, found.unseen, found.exposed_ns) == (100, 90, 7_000_000)


def test_what_ended_before_the_first_look_is_not_missed() -> None:
    engine = FakeEngine(capacity=10, rows=[operation(n) for n in range(1, 101)], exposed=7_000_000)
    found = observer(engine).figures()
    assert (found.operations, found.unseen, found.exposed_ns) == (10, 0, 0)
    engine = FakeEngine(rows=[operation(1)], exposed=7_000_000)
    assert observer(engine).figures().exposed_ns == 7_000_000


@given(st.lists(st.integers(0, 30), max_size=8), st.integers(1, 40))
def test_each_record_is_taken_once(amounts: list[int], capacity: int) -> None:
    """Also one of the same name and batch: names come back, and many records end at the same moment."""
    source, heard = FakeCoordinator(capacity), []
    one = observer(FakeEngine(), c9=source)
    one.look()
    one.follow(heard.append)
    number = missed = 0
    for amount in amounts:
        for _ in range(amount):
            number += 1
            source.add(FakeRecord(f"t{number % 4}", batch=number, submitted_ns=number, done_ns=10 * (number // 7)))
        one.look()
        missed += max(0, amount - capacity)
    found = one.figures()
    assert found.requests == number - missed
    if number and next(filter(None, amounts)) <= capacity:  # from then on it knows where it was
        assert found.passed == missed
    if not missed:
        assert [one.sequence for one in found.arrivals] == list(range(1, number + 1))
    assert sum(len(news.requests) for news in heard) == found.requests


def test_counters_are_per_step_and_outlive_their_coordinator() -> None:
    source = FakeCoordinator(counted=FakeCounters(cache_hits=30, cache_misses=10, oversleep_ns=8_000_000))
    coordinators = {9: source}
    engine = FakeEngine()
    one = following(engine, Annotations(engine.exposed_ns), lambda: coordinators)
    for step in range(4):
        for place, name in enumerate("abc"):
            source.add(FakeRecord(name, submitted_ns=10**9 * step + place, done_ns=10**9 * step + 10))
    source.counted.negotiation_ns, source.counted.negotiations = 30_000, 3
    before = one.figures()
    coordinators.clear()
    after = one.figures()
    assert after.coordinators == before.coordinators
    found = rates(after)
    assert (found.steps, found.cache_hits, found.oversleep_us, found.negotiation_us) == (4, 0.75, 2000.0, 10.0)
    assert after.step_ns == 10**9


def test_a_framework_that_knows_the_steps_is_believed() -> None:
    engine = FakeEngine()
    annotations = Annotations(engine.exposed_ns)
    one = observer(engine, annotations)
    for step in range(20):
        engine.rows += [operation(4 * step + n, size=64 * n) for n in range(1, 5)]
        if step == 9:
            assert one.figures().steps == 10  # guessed from the calls
        if step >= 10:
            annotations.steps.add(annotations, 1_000_000 * step)
    found = one.figures()
    assert (found.steps, found.step_ns) == (10, 1_000_000)


def test_steps_before_the_figures_begin_are_not_in_them() -> None:
    engine = FakeEngine(capacity=10, rows=[operation(n) for n in range(1, 101)])
    annotations = Annotations(engine.exposed_ns)
    for step in range(100):
        annotations.steps.add(annotations, step)
    one = observer(engine, annotations)
    assert one.figures().steps == 0
    annotations.steps.add(annotations, 100)
    assert one.figures().steps == 1


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 20))
def test_own_operations_are_in_no_figure(whose: list[bool], capacity: int) -> None:
    engine = FakeEngine(capacity=100)
    annotations = Annotations(engine.exposed_ns)
    one, heard = observer(engine, annotations), []
    one.follow(heard.append)
    for number, own in enumerate(whose, 1):
        if own:
            annotations.internal.add(5, number)
        state = "running" if number == len(whose) else "done"
        engine.rows.append(operation(number, channel=5, size=0 if own else 8, state=state))
        if not number % capacity:
            one.look()
    found = one.figures()
    theirs = whose.count(False)
    assert found.operations == theirs
    assert found.bytes == 8 * (theirs - (not whose[-1]))
    assert sum(len(news.events) for news in heard) == len(whose) - 1, "the timeline shows them all"


def test_all_operations_of_a_span_are_own() -> None:
    engine = FakeEngine(rows=[operation(1)])
    annotations = Annotations(engine.exposed_ns)
    one = observer(engine, annotations)
    with annotations.internal.span(5, lambda: len(engine.rows) + 1):
        engine.rows += [operation(2), operation(3, state="running")]
        assert one.figures().operations == 1
        engine.rows[2] = operation(3)
    engine.rows.append(operation(4))
    assert one.figures().operations == 2


def test_waiting_elsewhere_is_exposed_too_and_counts_once() -> None:
    engine = FakeEngine(rows=[operation(1)], exposed=1000)
    annotations = Annotations(engine.exposed_ns)
    one = observer(engine, annotations)
    with annotations.outside.span():
        threading.Event().wait(0.01)
        during = one.figures().exposed_ns
        assert during >= 10_001_000, "also while it lasts"
        with annotations.outside.span():
            engine.exposed += 60 * 10**9  # of the same time
    after = one.figures().exposed_ns
    assert after == 1000 + 60 * 10**9
    assert one.figures().exposed_ns == after


def test_the_policy_is_the_one_in_use() -> None:
    coordinator = FakeCoordinator()
    one = observer(FakeEngine(), c5=coordinator)
    assert one.figures().policies == {5: "board"}
    coordinator.policy = "cycle"  # as tuning does it
    assert one.figures().policies == {5: "cycle"}


def test_ids_that_are_no_operations_are_not_missed() -> None:
    engine = FakeEngine(capacity=100)
    one = observer(engine)
    for begin in range(0, 5000, 50):
        engine.rows += [operation(number) for number in range(begin + 7, begin + 50, 10)]
        one.look()
    found = one.figures()
    assert (found.operations, found.unseen) == (500, 0)


def test_a_rate_is_of_what_happened_between() -> None:
    engine = FakeEngine(capacity=100, rows=[operation(n) for n in range(1, 51)])
    one = observer(engine)
    before = one.figures()
    engine.rows += [operation(n) for n in range(51, 451)]  # 300 go by
    engine.exposed += 2_000_000
    after = one.figures()
    found = rates(after, before)
    assert found.steps == 400
    assert found.bytes_per_second * found.seconds == pytest.approx(4096 * 400)
    assert abs(found.exposed_ms - 0.005) < 1e-12


def test_figures_survive_their_journey() -> None:
    engine = FakeEngine(rows=[operation(1), operation(2, state="running")])
    engine.waiting = [(2, 61.5, 9.0, 0, "all_reduce #2", [("rank 1 (host b, pid 5)", "all_reduce #1")])]
    source = FakeCoordinator()
    source.add(FakeRecord("w", last=True, submitted_ns=5, done_ns=9))
    figures = observer(engine, c5=source).figures()
    assert isinstance(figures, Figures)
    assert decode(encode(figures)) == figures
    (wait,) = figures.waits
    assert (wait.seconds, wait.missing) == (61.5, ("rank 1 (host b, pid 5)",))


@settings(max_examples=40)
@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    for text in (data, b'{"rank":0}', encode(observer(FakeEngine()).figures()).replace(b"figures 1", b"figures 0")):
        with pytest.raises(ValueError, match=r"^not figures: "):
            decode(text)


def test_news_go_to_those_who_follow() -> None:
    heard: list[News] = []
    engine = FakeEngine(rows=[operation(1)])
    one = observer(engine)
    one.follow(heard.append)
    one.look()
    one.unfollow(heard.append)
    engine.rows.append(operation(2))
    one.look()
    assert [event.id for news in heard for event in news.events] == [1]


@given(st.floats(0, 1), st.floats(0.25, 1))
def test_it_looks_again_before_a_ring_is_full(full: float, before: float) -> None:
    seconds = seconds_to_next(full, before)
    assert 0.25 <= seconds <= 1.0
    assert full * seconds / before <= 1 or seconds == 0.25
