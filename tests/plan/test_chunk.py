"""Chunks as long as the network asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trees import trees

from paceline.plan.algorithms import ALGORITHMS
from paceline.plan.choice import Choice
from paceline.plan.choose import pick
from paceline.plan.chunk import chunk_bytes
from paceline.plan.cost import cost
from paceline.plan.network import Network
from paceline.simulate import programs
from paceline.topology import Topology, parse

KIB = 1 << 10


def network(ranks: list[int], mbits: list[float]) -> Network:
    machines = [f"- {{machine: m{i}, ranks: {n}, uplink: {mbits[i]} Mbit/s}}" for i, n in enumerate(ranks)]
    return Network(parse("children:\n" + "\n".join(machines), "test"))


@pytest.mark.parametrize(
    ("ranks", "mbits", "kib"),
    [
        ([2, 3], [500, 500], 256),
        ([3, 3, 4], [500, 500, 250], 128),
        ([1, 1, 1], [500, 500, 200], 128),
        ([1] * 8, [200] * 7 + [100], 128),
        ([1, 1], [10, 10], 64),
        ([4, 4], [100_000, 100_000], 4096),
        ([64, 64], [100, 100], 2048),
    ],
)
def test_what_the_slowest_uplink_carries_in_a_moment(ranks: list[int], mbits: list[float], kib: int) -> None:
    assert chunk_bytes(network(ranks, mbits)) == kib * KIB


@pytest.mark.parametrize(
    ("gbits", "there_and_back", "kib"),
    [
        # 64 MiB between two ranks took 1866 ms in chunks of 512 KiB and 602 in 2 MiB.
        (1, 10, 2048),
        (10, 1, 4096),
        # What is longer than 1 MiB is asked for: a chunk is under way for up to three round trips, and there are four.
        (10, 20, 32768),
        (10, 50, 65536),
        (100, 200, 65536),
    ],
)
def test_far_machines_need_more_under_way(gbits: int, there_and_back: float, kib: int) -> None:
    """Milliseconds."""
    link = f"uplink: {gbits} Gbit/s, latency: {there_and_back / 4} ms"
    far = parse(f"children:\n- {{machine: a, ranks: 1, {link}}}\n- {{machine: b, ranks: 1, {link}}}", "test")
    assert chunk_bytes(Network(far)) == kib * KIB


def test_large_buffers_are_cut_so() -> None:
    here = network([2, 3], [500, 500])
    for collective in ("all_reduce", "all_gather", "broadcast"):
        for mib, kib, under_way in ((16, 256, 4), (64, 512, 2)):
            choice = pick(collective, here.topology, mib << 20)
            assert (choice.chunk, choice.under_way) == (kib * KIB, under_way)


def test_smaller_ones_are_cut_where_that_fills_the_slow_link() -> None:
    """Up one link goes all that one machine has, down it the result. Two machines with equal links keep both ways busy
    in either half: nothing is gained there."""
    uneven = network([3, 3, 4], [500, 500, 250])
    chunks = [pick("all_reduce", uneven.topology, kib * KIB).chunk for kib in (128, 1024, 8192)]
    assert chunks == [32 * KIB, 64 * KIB, 128 * KIB]
    even = network([2, 2], [500, 500])
    assert {pick("all_reduce", even.topology, kib * KIB).chunk for kib in (128, 1024, 8192)} == {256 * KIB}


def test_what_is_far_is_cut_no_shorter_than_its_way_lasts() -> None:
    """1 Gbit/s, 10 ms there and back: four chunks of 512 KiB would be through in 17 ms, and have 30 to go."""
    links = [f"uplink: {mbits} Mbit/s, latency: 2.5 ms" for mbits in (5000, 5000, 1000)]
    far = parse("children:\n" + "\n".join(f"- {{machine: m{i}, ranks: 1, {it}}}" for i, it in enumerate(links)), "far")
    chunks = {pick("all_reduce", far, kib * KIB).chunk for kib in (1024, 2048, 4096, 8192, 65536)}
    assert chunks == {1024 * KIB, 2048 * KIB}


@given(st.lists(st.sampled_from([5, 50, 100, 370, 1000]), min_size=2, max_size=4), st.sampled_from([0.05, 1, 20]))
def test_links_do_not_run_idle_between_long_chunks(mbits: list[int], latency: float) -> None:
    """latency: milliseconds. Followed message by message, they take no longer than twice as many of half the length."""
    links = [f"uplink: {speed} Mbit/s, latency: {latency} ms" for speed in mbits]
    there = parse("children:\n" + "\n".join(f"- {{machine: m{i}, ranks: 1, {it}}}" for i, it in enumerate(links)), "x")
    usual = chunk_bytes(Network(there))
    chosen = pick("all_reduce", there, 128 * usual)
    shorter = replace(chosen, chunk=usual, under_way=4)

    def seconds(choice: Choice) -> float:
        return programs.all_reduce(choice, there, 128 * usual).seconds

    assert seconds(chosen) <= 1.05 * seconds(shorter)


@settings(max_examples=30)
@given(trees(most=20), st.integers(10, 30))
def test_to_cut_never_costs_time_in_the_model(topology: Topology, power: int) -> None:
    usual = chunk_bytes(Network(topology))
    line = cost(ALGORITHMS["paceline"].lines(topology), topology, 1, usual).line
    cut = line.cut(1 << power)
    longer = cut.chunk > usual  # saves wake-ups, of which the model knows nothing
    assert cut.seconds(1 << power) <= (1.02 if longer else 1) * line.seconds(1 << power)
    assert cut.chunk in (2 * usual, usual, usual // 2, usual // 4)
    assert cut.under_way * cut.chunk <= 4 * usual


def test_one_machine_has_no_slow_link() -> None:
    assert chunk_bytes(network([4], [10])) == 4096 * KIB
