"""A simulated step as a GOAL schedule: a reader of the format carries it out, and it is whole."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paceline import _engine
from paceline.plan.choice import serving
from paceline.plan.choose import choose
from paceline.plan.wire import entry
from paceline.simulate.goal import MOST_RANKS, schedule
from paceline.simulate.job import Batch, Moments
from paceline.simulate.network import uniform
from paceline.topology import Link, Node, Topology

OPERATION = re.compile(r"(l\d+): (?:calc (\d+)|(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+)) cpu ([01])")
REQUIRES = re.compile(r"(l\d+) requires (l\d+)")

Label = tuple[int, str]


@dataclass
class Read:
    """The operations of all ranks: nanoseconds, (from, to, tag, bytes) of messages, and what each requires."""

    calc: dict[Label, int] = field(default_factory=dict)
    sends: dict[Label, tuple[int, int, int, int]] = field(default_factory=dict)
    receives: dict[Label, tuple[int, int, int, int]] = field(default_factory=dict)
    required: dict[Label, set[Label]] = field(default_factory=lambda: defaultdict(set))

    def over(self) -> dict[Label, int]:
        """When each operation is over, with messages that take no time; raises CycleError for one that never is."""
        source = {message: label for label, message in self.sends.items()}
        waits = {**self.required}
        for label, message in self.receives.items():
            waits[label] = self.required[label] | {source[message]}
        found: dict[Label, int] = {}
        for label in TopologicalSorter(waits).static_order():
            found[label] = self.calc.get(label, 0) + max((found[each] for each in waits.get(label, ())), default=0)
        return found


def read(lines: Iterable[str]) -> Read:
    found, rank = Read(), -1
    for line in lines:
        if match := OPERATION.fullmatch(line):
            label = rank, match[1]
            assert label not in found.required
            found.required[label] = set()
            if match[2] is not None:
                found.calc[label] = int(match[2])
            else:
                peer, tag, nbytes = map(int, (match[5], match[6], match[4]))
                if match[3] == "send":
                    found.sends[label] = rank, peer, tag, nbytes
                else:
                    found.receives[label] = peer, rank, tag, nbytes
        elif match := REQUIRES.fullmatch(line):
            assert (rank, match[2]) in found.required, "it requires what no line above it has"
            found.required[rank, match[1]].add((rank, match[2]))
        elif match := re.fullmatch(r"rank (\d+) \{", line):
            assert int(match[1]) == rank + 1
            rank += 1
        else:
            assert line == "}" or re.fullmatch(r"num_ranks \d+", line), line
    return found


def moments(ready: list[float], sizes: list[int]) -> Moments:
    first = min(ready)
    times = [first * (number + 1) / len(sizes) for number in range(len(sizes))]
    return Moments(
        tuple(ready), tuple(Batch(time, time, time, 4 * size, 1) for time, size in zip(times, sizes, strict=True))
    )


def machines(counts: list[int], speeds: list[float]) -> Topology:
    """Machines of so many ranks, behind links of these speeds."""
    number, made = 0, []
    for place, (count, speed) in enumerate(zip(counts, speeds, strict=False)):
        ranks = tuple(Node("rank", f"rank {number + k}", Link(1e10, 1e10, 1e-6)) for k in range(count))
        made.append(Node("machine", f"machine {place}", Link(speed, speed, 1e-4), ranks))
        number += count
    return Topology("some", Node("switch", "switch", None, tuple(made)))


@given(st.lists(st.integers(1, 4), min_size=2, max_size=4), st.permutations([1e7, 2e7, 5e7, 1e8]), st.data())
@settings(max_examples=25, deadline=None)
def test_every_message_is_sent_and_taken_once_and_all_ends(
    counts: list[int], speeds: list[float], data: st.DataObject
) -> None:
    topology = machines(counts, speeds)
    world = topology.world
    ready = data.draw(st.lists(st.sampled_from((0.1, 0.2, 0.3)), min_size=world, max_size=world))
    sizes = data.draw(st.lists(st.sampled_from((1, 1000, 1 << 18)), min_size=1, max_size=3))
    found = read(schedule(moments(ready, sizes), topology))
    assert len(set(found.sends.values())) == len(found.sends), "two messages that nothing tells apart"
    assert Counter(found.sends.values()) == Counter(found.receives.values())
    over = found.over()
    for rank, seconds in enumerate(ready):
        computes = sum(time for (owner, _), time in found.calc.items() if owner == rank)
        assert computes == pytest.approx(seconds * 1e9, abs=len(sizes) + 1)
    assert max(over.values()) == pytest.approx(max(ready) * 1e9, abs=len(sizes) + 1)


def test_the_messages_are_those_of_the_programs() -> None:
    topology = uniform(6, 2, Link(1e8, 1e8, 1e-4))
    sizes = [1 << 20, 5, 1 << 20]
    found = read(schedule(moments([0.1] * 6, sizes), topology))
    expected = Counter[tuple[int, int, int]]()
    for size in sizes:
        plan = entry(serving(choose("all_reduce", topology), 4 * size))
        for rank in range(6):
            _, messages = _engine.program(plan, rank, 6, size)
            expected.update((rank, peer, nbytes) for _, _, sent, peer, _, nbytes in messages if sent)
    assert Counter((rank, peer, nbytes) for rank, peer, _, nbytes in found.sends.values()) == expected


def test_a_late_rank_holds_up_all() -> None:
    """No rank takes the last message of a batch before the last rank has issued it."""
    found = read(schedule(moments([0.1, 0.1, 0.3, 0.1], [1 << 18]), uniform(4, 1, Link(1e8, 1e8, 1e-4))))
    over = found.over()
    for rank in range(4):
        assert max(over[label] for label in found.receives if label[0] == rank) >= 0.3e9


def test_too_many_ranks() -> None:
    topology = uniform(MOST_RANKS + 1, 1, Link(1e8, 1e8, 1e-4))
    with pytest.raises(ValueError, match=f"for up to {MOST_RANKS} ranks, not {MOST_RANKS + 1}"):
        next(schedule(moments([0.1], [1]), topology))
