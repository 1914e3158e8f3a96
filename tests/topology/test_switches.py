"""Switches from measurements: what was measured on a known tree gives a tree on which transfers get the same."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from counting import calls
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_trees import Spec, errors, hindering_tree, inferred, measured, switches, tree

from paceline.topology.discover import Placement, RankFacts
from paceline.topology.infer import infer
from paceline.topology.judge import findings
from paceline.topology.measured import Load, Measured


@pytest.mark.parametrize(
    ("children", "expected"),
    [
        ([(1, [1, 1]), (1, [1, 1])], {(0, 1): (1, 1), (2, 3): (1, 1)}),
        ([(2, [1] * 4)] * 4, {tuple(range(4 * n, 4 * n + 4)): (2, 2) for n in range(4)}),
        ([(2, [1] * 4)] + [(10, [1] * 4)] * 3, {(0, 1, 2, 3): (2, 2)}),
        ([((1, 3), [1] * 4), ((3, 1.5), [1] * 4), 1, 1], {(0, 1, 2, 3): (1, 3), (4, 5, 6, 7): (3, 1.5)}),
        ([(2, [1] * 4), (1.5, [1] * 3), (1, [1] * 2), 1, 1, 1], {(0, 1, 2, 3): 2, (4, 5, 6): 1.5, (7, 8): 1}),
        (
            [(2, [(1.5, [1] * 3)] * 2)] * 3,
            {tuple(range(6 * n, 6 * n + 6)): 2 for n in range(3)}
            | {tuple(range(3 * n, 3 * n + 3)): 1.5 for n in range(6)},
        ),
        ([1] * 12, {}),
        ([1, 0.5, 0.2, 1, 1, 0.7, 1, 0.3], {}),
        ([(10, [1] * 4)] * 3, {}),
    ],
)
def test_switches_that_hinder_are_found_and_no_others(
    children: list[Spec], expected: dict[tuple[int, ...], float | tuple[float, float]]
) -> None:
    found, _ = inferred(tree(children))
    both = {machines: speed if isinstance(speed, tuple) else (speed, speed) for machines, speed in expected.items()}
    assert switches(found) == {machines: pytest.approx(speeds, rel=0.05) for machines, speeds in both.items()}


@pytest.mark.verify
def test_on_inferred_trees_transfers_get_what_they_get_on_the_true_ones() -> None:
    """Not on each as exactly: some racks that together have as many machines as all others may be taken for one."""
    off: list[float] = []
    for seed in range(150):
        known = hindering_tree(Random(seed))
        found, _ = inferred(known, seed=seed)
        off.append(float(np.mean(errors(known, found, Random(seed)))))
    assert np.mean(off) < 0.04
    assert np.quantile(off, 0.95) < 0.1
    assert max(off) < 0.25


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from([0.1, 0.25, 0.5, 1.0]), min_size=4, max_size=16), st.floats(0, 0.1), st.integers(0, 99))
def test_noise_makes_no_switches(speeds: list[float], noise: float, seed: int) -> None:
    found, _ = inferred(tree([*speeds, 1.0, 1.0]), noise, seed)
    assert switches(found) == {}


def test_machines_that_are_numbered_across_racks_are_placed_by_rack() -> None:
    known = tree([(1, [1] * 3), (1, [1] * 3)])
    result = measured(known, 0.02, Random(1))
    mixed = [0, 2, 4, 1, 3, 5]  # machine n of what was measured is mixed[n] of the tree
    where = np.argsort(mixed)
    loads = tuple(
        Load(tuple(int(where[machine]) for machine in load.machines), load.to, load.rate) for load in result.loads
    )
    order = np.ix_(mixed, mixed)
    again = Measured(result.rate[order], result.latency[order], result.local_rate, result.local_latency, loads)
    found = infer([RankFacts(f"id {machine}", f"m{machine}") for machine in range(6)], again)
    assert set(switches(found)) == {(0, 3, 1), (2, 4, 5)} or {tuple(sorted(one)) for one in switches(found)} == {
        (0, 1, 3),
        (2, 4, 5),
    }
    assert sorted(found.ranks) == list(range(6)) and found.ranks != tuple(range(6))


def test_latencies_of_two_buildings_show_them() -> None:
    known = tree([(10, [1] * 3), (10, [1] * 3)])
    result = measured(known, 0.02, Random(1))
    far = np.not_equal.outer(np.arange(6) < 3, np.arange(6) < 3)
    result.latency[far] += 2e-3
    found = infer([RankFacts(f"id {machine}", f"m{machine}") for machine in range(6)], result)
    links = [node.uplink for node in found.topology.root.walk() if node.kind == "switch" and node.uplink is not None]
    assert set(switches(found)) == {(0, 1, 2), (3, 4, 5)}
    assert sum(link.latency for link in links) == pytest.approx(2.02e-3, rel=0.05)


def test_what_shares_a_link_is_said() -> None:
    found, result = inferred(tree([(1.5, [1] * 3), (3, [1] * 3), 1, 1, 1, 1]), noise=0)
    assert findings(found, result) == [
        "shared link: m0, m1, m2, below switch-1, send 1.2 Gbit/s together, though their links carry 2.4 Gbit/s, "
        "and receive 1.2 Gbit/s together, though their links carry 2.4 Gbit/s"
    ]


def test_the_work_grows_with_the_pairs_of_machines() -> None:
    def work(racks: int) -> int:
        facts = [RankFacts(f"id {machine}", f"m{machine}") for machine in range(8 * racks)]
        result = measured(tree([(4, [1] * 8)] * racks), 0.03, Random(3))
        found: list[Placement] = []
        count = calls(lambda: found.append(infer(facts, result)))
        assert sorted(switches(found[0])) == [tuple(range(8 * rack, 8 * rack + 8)) for rack in range(racks)]
        return count

    assert work(8) < 5 * work(4)
