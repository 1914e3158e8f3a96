"""Where a chain of calls is cut: as well as by trying all cuts, within memory, and never where it is impossible."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline.topology.defaults import LOCAL
from paceline.topology.file import parse
from paceline.torch.partitioned.chain import channel
from paceline.torch.partitioned.cut import CannotCut, Chain, Channel, Limits, Times, Weight, cut

numbers = st.integers(0, 9).map(float)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    calls = draw(st.integers(2, 7))
    each = st.lists(numbers, min_size=calls, max_size=calls)
    crossing = st.lists(numbers | st.just(math.inf), min_size=calls + 1, max_size=calls + 1)
    back = st.lists(numbers, min_size=calls + 1, max_size=calls + 1)
    weights = st.lists(st.lists(st.integers(0, 3), max_size=2, unique=True), min_size=calls, max_size=calls)
    needed = [[Weight(name, 1.0 + name) for name in names] for names in draw(weights)]
    forward, backward, more = draw(each), draw(each), draw(each)
    returned = Times(*([one + other for one, other in zip(times, more, strict=True)] for times in (forward, backward)))
    return Chain(forward, backward, draw(each), draw(each), draw(crossing), draw(back), needed, returned)


def stages(ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    return pairwise([0, *ends])


def slowest(chain: Chain, channels: Sequence[Channel], limits: Limits, ends: Sequence[int]) -> float:
    """The time of the slowest stage; infinite if one does not fit, or can't be."""
    found = []
    for number, (begin, end) in enumerate(stages(ends)):
        weights = {one.identity: one.nbytes for call in chain.weights[begin:end] for one in call}
        held = sum(weights.values()) * limits.copies
        kept = sum(chain.saved[begin:end]) * limits.in_flight[number]
        taking = chain if held + limits.fragments * kept <= limits.memory else chain.returning()
        time = sum(taking.forward[begin:end]) + sum(taking.backward[begin:end])
        if number:
            time += float(channels[number - 1].seconds(chain.up[begin]))
        if number < len(channels):
            time += float(channels[number].seconds(chain.down[end]))
        if limits.instead and kept:
            missing = min(1.0, max(0.0, 1 - (limits.memory - held) / kept))
            time += missing * sum(limits.instead[begin:end])
            kept = 0.0
        found.append(time if held + kept <= limits.memory else math.inf)
    return max(found)


@given(chains(), st.integers(1, 4), st.sampled_from([15.0, 60.0, math.inf]), st.integers(0, 3), st.booleans())
def test_no_other_cuts_are_better(chain: Chain, count: int, memory: float, speed: int, recompute: bool) -> None:
    channels = [Channel(speed * (number + 1), 1.0) for number in range(count - 1)]
    instead = chain.returning().forward if recompute else ()
    limits = Limits(memory, [count - number for number in range(count)], 2.0, instead, 1.5)
    calls = len(chain.forward)
    choices = [[*inner, calls] for inner in combinations(range(1, calls), count - 1)]
    possible = [ends for ends in choices if all(math.isfinite(chain.up[end]) for end in ends[:-1])]
    best = min((slowest(chain, channels, limits, ends) for ends in possible), default=math.inf)
    if math.isinf(best):
        with pytest.raises(CannotCut):
            cut(chain, channels, limits)
    else:
        ends = cut(chain, channels, limits)
        assert ends in possible
        assert slowest(chain, channels, limits, ends) == pytest.approx(best)


TWO = """
name: two
children:
  - {machine: alpha, ranks: 2, uplink: 200 Mbit/s, latency: 50 us}
  - {machine: beta, ranks: 2, uplink: 1 Gbit/s, latency: 20 us}
"""


def test_the_path_between_ranks_is_as_slow_as_its_slowest_link() -> None:
    topology = parse(TWO)
    latency = pytest.approx(70e-6 + 2 * LOCAL.latency)
    assert channel(topology, [(0, 1)]) == Channel(1 / LOCAL.up, 2 * LOCAL.latency)
    assert channel(topology, [(1, 2)]) == Channel(1 / 25e6, latency)


def test_paths_that_are_used_at_once_share_links() -> None:
    topology = parse(TWO)
    latency = pytest.approx(70e-6 + 2 * LOCAL.latency)
    assert channel(topology, [(0, 1), (2, 3)]) == Channel(1 / LOCAL.up, 2 * LOCAL.latency)
    assert channel(topology, [(0, 2), (1, 3)]) == Channel(2 / 25e6, latency)
    assert channel(topology, [(0, 2), (3, 1)]) == Channel(1 / 25e6, latency)  # one up, one down
