"""What each stream into a machine may bring: the machine's link, shared by those who send into it."""

from __future__ import annotations

import math

import pytest

from paceline.lab.lab import switched
from paceline.plan.streams import stream_rate
from paceline.runtime.plans import plans
from paceline.topology import Link, Topology
from paceline.topology.discover import Placement


def _rates(topology: Topology, algorithm: str) -> list[float]:
    placement = Placement(topology, tuple(range(topology.world)))
    made = plans(topology, placement.ranks, algorithm)
    return [stream_rate(placement, made, rank) for rank in range(topology.world)]


@pytest.mark.parametrize("machines", [2, 3, 8])
def test_single_ranks_all_send_to_each(machines: int) -> None:
    link = Link(30e6, 21e6)
    assert _rates(switched([1] * machines, link), "flexreduce") == [21e6 / (machines - 1)] * machines


def test_a_ring_has_one_stream_into_each_machine() -> None:
    assert _rates(switched([2, 3, 1], Link(5e6, 7e6)), "ring") == [7e6] * 6


def test_what_nothing_holds_is_not_shared() -> None:
    assert _rates(switched([2, 2]), "flexreduce") == [math.inf] * 4


def test_ranks_may_sit_anywhere() -> None:
    topology = switched([3, 1], Link(8e6, 8e6))
    placement = Placement(topology, (1, 2, 3, 0))  # rank 0 is alone
    made = plans(topology, placement.ranks, "flexreduce")
    alone, *others = (stream_rate(placement, made, rank) for rank in range(4))
    assert alone == 8e6 / 3
    assert set(others) == {8e6 / 3}
