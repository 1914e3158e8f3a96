"""Chunks as long as the network asks for."""

from __future__ import annotations

import pytest

from paceline.plan.choose import choose
from paceline.plan.chunk import chunk_bytes
from paceline.plan.network import Network
from paceline.topology import parse

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


def test_every_plan_between_machines_is_cut_so() -> None:
    here = network([2, 3], [500, 500])
    for collective in ("all_reduce", "broadcast"):
        for choice in choose(collective, here.topology):
            assert choice.one_shot or choice.chunk == 256 * KIB


def test_one_machine_has_no_slow_link() -> None:
    assert chunk_bytes(network([4], [10])) == 4096 * KIB
