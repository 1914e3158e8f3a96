"""Engine, input workers and compute on CPUs of their own: what is decided."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.cpu import pinning
from paceline.cpu.budget import budget, physical_cores
from paceline.cpu.partition import OFF, Partition, Parts, Wish, parse, partition

STATIC, ADAPTIVE = Wish("static"), Wish("adaptive")


def alone(wish: Wish, cpus: int, quota: float | None = None, siblings: int = 1) -> Partition:
    return shared(wish, cpus, 1, quota, siblings)[0]


def shared(wish: Wish, cpus: int, ranks: int, quota: float | None = None, siblings: int = 1) -> list[Partition]:
    mine = budget(range(cpus), quota)
    cores = [tuple(range(first, first + siblings)) for first in range(0, cpus, siblings)]
    return [partition(wish, mine, cores, [frozenset(range(cpus))] * ranks, place) for place in range(ranks)]


@pytest.mark.parametrize(
    ("cpus", "engine", "inputs", "compute"),
    [
        (2, (1,), (1,), (0,)),
        (3, (2,), (2,), (0, 1)),
        (4, (3,), (2,), (0, 1)),
        (9, (8,), (6, 7), (0, 1, 2, 3, 4, 5)),
    ],
)
def test_static_parts_of_one_rank(
    cpus: int, engine: tuple[int, ...], inputs: tuple[int, ...], compute: tuple[int, ...]
) -> None:
    found = alone(STATIC, cpus)
    assert found.parts == Parts(engine, inputs, compute)
    assert found.threads == len(compute)
    assert ("shares one with input workers" in found.reason) is (cpus < 4)


def test_adaptive_gives_the_engines_core_to_compute() -> None:
    assert alone(ADAPTIVE, 4).parts == Parts((3,), (2,), (0, 1, 3))
    assert alone(ADAPTIVE, 4).threads == 3
    assert "while it sleeps" in alone(ADAPTIVE, 4).reason
    assert alone(ADAPTIVE, 2).parts == Parts((1,), (1,), (0, 1))


@pytest.mark.parametrize(
    ("cpus", "ranks", "quota", "reason"),
    [
        (1, 1, None, "there is 1 core, and a rank needs two"),
        (2, 2, None, "2 ranks share 2 cores, and a rank needs two"),
        (2, 4, None, "4 ranks share 2 cores"),
        (64, 2, 6.0, "a cgroup quota of 6 CPUs' time on 64 CPUs"),
    ],
)
def test_too_little_to_divide_is_said(cpus: int, ranks: int, quota: float | None, reason: str) -> None:
    for found in shared(STATIC, cpus, ranks, quota):
        assert found.parts == Parts()
        assert reason in found.reason and "nothing is pinned" in found.reason
        assert found.threads == (2 if quota else None)


def test_nobody_asked() -> None:
    assert alone(OFF, 8) == Partition(Parts(), None, "it was not asked for")


def test_siblings_stay_together() -> None:
    assert alone(STATIC, 8, siblings=2).parts == Parts((6, 7), (4, 5), (0, 1, 2, 3))
    assert alone(STATIC, 2, siblings=2).parts == Parts(), "one core has nothing to divide"


def test_ranks_that_were_bound_apart_have_their_cpus_alone() -> None:
    mine = budget([4, 5, 6, 7], None)
    others = [frozenset(range(4)), frozenset(range(4, 8))]
    found = partition(STATIC, mine, [(cpu,) for cpu in range(4, 8)], others, 1)
    assert found.parts == Parts((7,), (6,), (4, 5))


def test_ranks_that_overlap_in_part_are_left_to_the_kernel() -> None:
    mine = budget([0, 1, 2], None)
    found = partition(STATIC, mine, [(0,), (1,), (2,)], [frozenset(range(3)), frozenset({2, 3})], 0)
    assert found.parts == Parts() and "other CPUs than those it shares" in found.reason


@given(st.integers(1, 40), st.integers(1, 6), st.sampled_from([1, 2]), st.sampled_from([STATIC, ADAPTIVE]))
def test_parts_are_apart_and_nothing_is_wasted(cores: int, ranks: int, siblings: int, wish: Wish) -> None:
    found = shared(wish, cores * siblings, ranks, siblings=siblings)
    used: list[int] = []
    for one in found:
        if one.parts == Parts():
            assert cores // ranks < 2
            continue
        assert one.parts.engine and one.parts.input and one.parts.compute and one.threads == len(one.parts.compute)
        assert one.parts.input == one.parts.engine or not set(one.parts.input) & set(one.parts.engine)
        assert not set(one.parts.input) & set(one.parts.compute) - set(one.parts.engine)
        assert (set(one.parts.engine) <= set(one.parts.compute)) is (wish is ADAPTIVE)
        for part in (one.parts.engine, one.parts.input, one.parts.compute):
            assert {cpu // siblings * siblings + s for cpu in part for s in range(siblings)} == set(part)
        used += one.parts.cpus
    assert len(set(used)) == len(used), "no two ranks have a CPU in common"
    if all(one.parts != Parts() for one in found):
        assert sorted(used) == list(range(cores * siblings))


def test_explicit_parts() -> None:
    wish = parse("engine=0,input=1, 2,compute=3-5,7")
    assert wish == Wish("explicit", (Parts((0,), (1, 2), (3, 4, 5, 7)),))
    assert alone(wish, 8) == Partition(wish.explicit[0], 4, "as you said")
    both = parse("engine=0,compute=1;engine=2,compute=3")
    one, two = Parts((0,), (), (1,)), Parts((2,), (), (3,))
    assert [found.parts for found in shared(both, 4, 3)] == [one, two, one]
    assert alone(parse("engine=1"), 4).threads is None, "compute stays as it is"


def test_explicit_parts_that_the_rank_may_not_use() -> None:
    with pytest.raises(ValueError, match=r"CPUs 4-5 cannot be used here: the affinity of this rank .* is 0-3"):
        alone(parse("engine=0,compute=1-5"), 4)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("fast", "should be one of static, adaptive, off, or CPUs such as engine=0"),
        ("engine", "should be one of"),
        ("", "should be one of"),
        ("engine=0,loader=1", "should be one of"),
        ("0,engine=1", "should be one of"),
        ("engine=0,engine=1", "says engine= twice"),
        ("engine=", "has '', which is no range of CPUs"),
        ("engine=3-1", "has '3-1', which is no range"),
        ("engine=a", "has 'a', which is no range"),
        ("engine=1;", "should be one of"),
    ],
)
def test_wishes_that_nobody_understands(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        parse(text)


@given(st.text(alphabet="engicomputs=0123,-; ", max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        wish = parse(text)
    except ValueError:
        return
    assert wish.mode in ("static", "adaptive", "off") or wish.explicit


def test_a_kernel_that_refuses_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: int, cpus: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refuse)
    here = tuple(sorted(os.sched_getaffinity(0)))
    wanted = Partition(Parts(compute=(here[-1] + 1,)), 1, "")
    assert pinning.place_compute(wanted, here, None).startswith("the kernel refuses to pin threads (Operation not")
    pinning.move(here)


def test_cores_of_two_sockets_with_siblings() -> None:
    """As Linux numbers many servers: siblings far apart, sockets in turn."""
    files = {}
    for cpu in range(8):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology"
        files[f"{folder}/thread_siblings_list"] = f"{cpu % 4},{cpu % 4 + 4}\n"
        files[f"{folder}/physical_package_id"] = f"{cpu % 2}\n"
    assert physical_cores(range(8), files.get) == ((0, 4), (2, 6), (1, 5), (3, 7))
    assert physical_cores([2, 4, 5], files.get) == ((4,), (2,), (5,))
    assert physical_cores([3, 1], {}.get) == ((1,), (3,))


def test_here() -> None:
    affinity = os.sched_getaffinity(0)
    assert {cpu for core in physical_cores(affinity) for cpu in core} == affinity
