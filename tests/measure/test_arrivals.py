"""What a link is taken to carry, where the ranks at its ends get their cores late: never more than it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.adapt.measure.arrivals import Arrivals

LINK = 1000.0
"""Bytes per second."""
MESSAGE, MESSAGES, SETTLED = 100, 32, 8
BEFORE = 7
"""Bytes that the connection has carried before."""


class Peer:
    """Sends at the link's speed, but for `pauses`: before message i it waits for so many seconds."""

    def __init__(self, pauses: Sequence[float]) -> None:
        self.now = 0.0
        self.arrives: list[float] = []
        at = 0.0
        for pause in pauses:
            at += pause + MESSAGE / LINK
            self.arrives.append(at)

    def received(self, _: int) -> int:
        """As the kernel counts."""
        whole = sum(at <= self.now for at in self.arrives)
        rest = 0.0
        if whole < len(self.arrives):
            rest = max(0.0, MESSAGE - (self.arrives[whole] - self.now) * LINK)
        return BEFORE + MESSAGE * whole + int(rest)


def seen(pauses: Sequence[float], late: Iterator[float]) -> Arrivals:
    """What a rank sees which is late by these seconds at every look at its clock."""
    peer = Peer(pauses)

    def clock() -> float:
        peer.now += next(late)
        return peer.now

    group: Any = SimpleNamespace(native=peer)
    arrivals = Arrivals(group, 1, clock)
    for arrived in peer.arrives:
        peer.now = max(peer.now, arrived)
        arrivals.add(MESSAGE)
    assert arrivals.counted
    return arrivals


def found(pauses: Sequence[float], late: Iterator[float]) -> float:
    """The rate that this rank finds."""
    return seen(pauses, late).rate(SETTLED)


seconds = st.one_of(st.just(0.0), st.floats(0, 3))


@given(st.lists(seconds, min_size=MESSAGES, max_size=MESSAGES), st.lists(seconds, min_size=65, max_size=65))
def test_no_wait_for_a_core_makes_a_link_look_faster(pauses: list[float], late: list[float]) -> None:
    assert found(pauses, iter(late)) <= LINK * 1.01  # a count of whole bytes


@pytest.mark.parametrize("held_up", range(1, 65))
def test_one_wait_for_a_core_changes_nothing(held_up: int) -> None:
    """However long it is, and whenever: half of the bytes are enough. It may fall between a clock and the count."""
    late = (0.5 if look == held_up else 0.0 for look in range(65))
    assert found([0.0] * MESSAGES, late) == pytest.approx(LINK, rel=0.02)


def test_a_sender_that_is_held_up_in_the_middle_hides_nothing() -> None:
    pauses = [0.0] * MESSAGES
    pauses[SETTLED + 2] = 5.0
    assert found(pauses, iter([0.0] * 65)) == pytest.approx(LINK, rel=0.02)


def test_bytes_come_in_bursts_where_a_rank_is_held_up_and_evenly_where_a_link_limits_them() -> None:
    assert seen([0.0] * MESSAGES, iter([0.0] * 65)).burst(SETTLED) == pytest.approx(1.0, rel=0.05)
    pauses = [0.0 if message % 8 else 40 * MESSAGE / LINK for message in range(MESSAGES)]
    assert seen(pauses, iter([0.0] * 65)).burst(SETTLED) > 3
