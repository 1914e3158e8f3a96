"""What a group takes its network for, and what a measurement says of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.adapt import network
from paceline.adapt.network import AssumedNetwork
from paceline.plan.choose import pick
from paceline.plan.cost import cost
from paceline.topology import Link, Node, Topology, parse
from paceline.topology.alike import alike
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured

TWO = "children: [{machine: alpha, ranks: 1, uplink: 1 Gbit/s}, {machine: beta, ranks: 2, uplink: 1 Gbit/s}]"


THREE = TWO.replace("]", ", {machine: gamma, ranks: 1, uplink: 1 Gbit/s}]")


def faster(node: Node, up: float, down: float) -> Node:
    link = node.uplink
    assert link is not None
    return replace(node, uplink=Link(link.up * up, link.down * down, link.latency))


def times(topology: Topology, up: float, down: float) -> Topology:
    """With another link above the first machine; of two machines the other end is measured as the same."""
    first, *others = topology.root.children
    if len(others) == 1:
        others = [faster(others[0], down, up)]
    return replace(topology, root=replace(topology.root, children=(faster(first, up, down), *others)))


def measured(
    known: Topology,
    up: float,
    down: float,
    spread: float = 1.0,
    waited: Sequence[float] = (),
    bursts: Sequence[float] = (),
) -> tuple[Topology, str]:
    """What is made of a measurement that found the first machine's link so many times as fast.

    waited, bursts: of each machine, see `Measured`.
    """
    unknown = np.full((len(known.root.children),) * 2, np.nan)
    cores = {"waited": np.array(waited), "bursts": np.array(bursts)}
    figures = Measured(unknown, unknown, unknown[0], unknown[0], spread=spread, **cores)
    ranks = tuple(range(known.world))
    now, news = AssumedNetwork(Placement(known, ranks)).measured(Placement(times(known, up, down), ranks), figures)
    return now.topology, news


@given(st.floats(0.92, 1.09), st.floats(0.92, 1.09))
def test_links_that_are_what_they_were_taken_for_are_no_news(up: float, down: float) -> None:
    assert measured(parse(TWO), up, down)[1] == ""


@given(st.sampled_from([(0.8, 1.0), (1.0, 0.8), (1.3, 1.0), (1.0, 1.3)]))
def test_a_link_that_is_another_one_way_is(factors: tuple[float, float]) -> None:
    now, news = measured(parse(THREE), *factors)
    assert news.startswith("alpha ") and "(taken for 1 Gbit/s), beta 1 Gbit/s (taken for 1 Gbit/s)" in news
    assert now.root.children[0].uplink == times(parse(THREE), *factors).root.children[0].uplink


@pytest.mark.parametrize(
    ("waited", "bursts", "believed"),
    [
        ((0.1, 0.2, 0.1), (3, 3, 3), True),  # packets were lost, perhaps
        ((0.9, 0.1, 0.1), (3, 3, 3), False),  # it could not use its link
        ((0.1, 0.9, 0.1), (3, 3, 3), True),  # gamma could
        ((0.1, 0.9, 0.9), (3, 3, 3), False),  # nobody could use it
        ((0.9, 0.9, 0.9), (1.3, 1.3, 1.3), True),  # cores were busy, but bytes came evenly: the link is slow
        ((), (), True),
    ],
)
def test_busy_cores_are_no_slow_link(waited: tuple[float, ...], bursts: tuple[float, ...], believed: bool) -> None:
    now, news = measured(parse(THREE), 0.05, 0.05, waited=waited, bursts=bursts)
    assert bool(news) is believed
    assert (now.root.children[0].uplink == parse(THREE).root.children[0].uplink) is not believed
    assert measured(parse(THREE), 2.0, 2.0, waited=waited, bursts=bursts)[1], "what was seen to be faster is faster"


def test_between_two_machines_it_is_their_way_that_is_another() -> None:
    """Which end is slow cannot be told; and a way that is as slow as its slower end was known to be is no news."""
    assert measured(parse(TWO), 0.1, 0.1)[1] == "the link between alpha and beta 100 Mbit/s (taken for 1 Gbit/s)"
    news = measured(parse(TWO), 0.1, 0.2)[1]
    assert news == "the link between alpha and beta 100 Mbit/s up / 200 Mbit/s down (taken for 1 Gbit/s)"
    uneven, slow = parse(TWO.replace("1 Gbit/s}]", "100 Mbit/s}]")), times(parse(TWO), 0.1, 0.1)
    unknown = np.full((2, 2), np.nan)
    figures = Measured(unknown, unknown, unknown[0], unknown[0])
    assert AssumedNetwork(Placement(uneven, (0, 1, 2))).measured(Placement(slow, (0, 1, 2)), figures)[1] == ""


@given(st.floats(0.7, 1.4), st.floats(0.7, 1.4))
def test_what_a_busy_machine_cannot_tell_is_no_news(up: float, down: float) -> None:
    assert measured(parse(TWO), up, down, spread=1.5)[1] == ""


def test_a_link_that_is_faster_than_a_rank_can_measure_is_as_its_interface_says() -> None:
    fast = parse(THREE.replace("1 Gbit/s", "100 Gbit/s"))
    assert measured(fast, 0.1, 0.12)[1] == ""
    assert measured(fast, 0.01, 0.1)[1].startswith("alpha 1 Gbit/s up / ")


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter"])
def test_the_seconds_of_any_size_are_those_of_its_plan_which_is_made_once(
    collective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assumed = AssumedNetwork(Placement(parse(THREE), tuple(range(4))))
    assumed.prepare()
    sizes = [*(1 << power for power in range(27)), 3, 5000, 1_000_001]
    expected = []
    for nbytes in sizes:
        choice = pick("all_reduce" if collective == "all_reduce" else "all_gather", parse(THREE), nbytes)
        chunk = choice.chunk or nbytes if collective == "all_reduce" else nbytes
        price = cost(choice.plan, parse(THREE), nbytes, chunk)
        expected.append((price.line if collective == "all_reduce" else price.all_gather).seconds(nbytes))
    monkeypatch.setattr(network, "choose", None)  # nothing is planned in the way of a call
    monkeypatch.setattr(network, "cost", None)
    assert [assumed.seconds(collective, nbytes) for nbytes in sizes] == pytest.approx(expected, rel=1e-12)


def uplinks(*speeds: float) -> Topology:
    machines = [f"{{machine: m{number}, ranks: 1, uplink: {speed} Mbit/s}}" for number, speed in enumerate(speeds)]
    return parse(f"children: [{', '.join(machines)}]")


@given(st.lists(st.floats(100, 1000), min_size=2, max_size=8), st.floats(1.0, 2.0))
def test_links_alike_are_equal_and_others_keep_their_order(speeds: list[float], factor: float) -> None:
    topology = uplinks(*speeds)
    before = [node.uplink for node in topology.root.children if node.uplink]
    after = [node.uplink for node in alike(topology, factor).root.children if node.uplink]
    for link, settled in zip(before, after, strict=True):
        assert settled.up == settled.down and link.up / factor <= settled.up * (1 + 1e-9) <= link.up * factor * 1.01
    by_speed = [settled.up for _, settled in sorted(zip(before, after, strict=True), key=lambda pair: pair[0].up)]
    assert by_speed == sorted(by_speed)


def test_a_link_that_is_a_little_slower_stays_so() -> None:
    links = [node.uplink.up * 8e-6 for node in alike(uplinks(500, 490, 400), 1.1).root.children if node.uplink]
    assert links == pytest.approx([495, 495, 400])
