"""What a report says of a job is what the job did: its steps, its gradients, its computation and its network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import TWO, report, without_profiles

from paceline.observe.report import Report, read, to_json
from paceline.simulate.calibrate import calibrate
from paceline.simulate.network import uniform
from paceline.simulate.scenario import Scenario
from paceline.simulate.workload import IN_ORDER
from paceline.topology import Link, Topology, parse

SIZES = (4 << 20, 1 << 20, 2 << 20)
ONE_SLOW = parse(
    """
name: one-slow
children:
  - {machine: alpha, ranks: 1, uplink: 500 Mbit/s}
  - {machine: beta, ranks: 1, uplink: 500 Mbit/s}
  - {machine: gamma, ranks: 1, uplink: 200 Mbit/s}
"""
)
FOUR = uniform(8, 2, Link(62.5e6, 62.5e6, 50e-6))
COMPUTES = [[0.1 + 0.01 * ((step + rank) % 3) for rank in range(4)] for step in range(12)]


@pytest.mark.parametrize("named", [False, True])
def test_a_job_is_found_again(named: bool) -> None:
    found = calibrate(report(SIZES, COMPUTES, slower=1.25, named=named), "run.json")
    workload = found.workload
    assert workload.policy == ("board" if named else IN_ORDER)
    assert [each.nbytes for each in workload.gradients] == list(SIZES)
    assert [each.ready for each in workload.gradients] == pytest.approx([1 / 3, 2 / 3, 1])
    for step, seconds in zip(workload.compute.steps, COMPUTES[1:], strict=True):
        assert step == pytest.approx(seconds, abs=1e-6)
    assert workload.carries == pytest.approx([1.25] * 11, rel=1e-3)
    assert len(found.steps) == 11
    assert found.topology.world == 4
    assert workload.thread.wake == pytest.approx(60e-6)


def test_it_predicts_its_own_run() -> None:
    found = calibrate(report(SIZES, COMPUTES, slower=1.25), "run.json")
    told = Scenario(workload=found.workload, topology=found.topology).answer(20, 5)
    assert told.median == pytest.approx(fmean(found.steps), rel=0.02)
    assert told.low <= round(fmean(found.steps), 9) <= told.high + 1e-9


def computed(ranks: int, own: float, common: float, steps: int = 300) -> list[list[float]]:
    """Seconds by step and rank: 100 ms, an exponential delay that all ranks share, and one of each, by their means."""
    draw, found = Random(ranks), []
    for _ in range(steps):
        shared = 0.1 + (draw.expovariate(1 / common) if common else 0.0)
        found.append([shared + (draw.expovariate(1 / own) if own else 0.0) for _ in range(ranks)])
    return found


@pytest.mark.parametrize(("own", "common"), [(0.0, 0.04), (0.04, 0.0), (0.02, 0.02)])
@pytest.mark.parametrize("topology", [TWO, ONE_SLOW, FOUR], ids=lambda topology: topology.name)
def test_what_ranks_have_in_common_is_not_drawn_for_each(own: float, common: float, topology: Topology) -> None:
    """Ranks that share CPUs are slow in the same steps. As if each were slow in its own, one would be in every step."""
    sizes = (4 << 20,)
    found = calibrate(report(sizes, computed(4, own, common)), "run.json")
    run = calibrate(report(sizes, computed(topology.world, own, common), topology=topology), "other.json")
    told = Scenario(workload=found.workload, topology=run.topology).answer(300, 5)
    assert told.step.seconds == pytest.approx(fmean(run.steps), rel=0.03)


def test_a_rank_that_is_always_late_stays_late() -> None:
    """Drawn for any rank, its values would make a step short in which no rank draws one, a third of them."""
    late = [[seconds + 0.05 * (rank == 2) for rank, seconds in enumerate(step)] for step in COMPUTES]
    found = calibrate(report(SIZES, late, slower=1.25), "run.json")
    later = found.workload.compute.on(8).later
    assert later == pytest.approx([0.0, 0.0, 0.05, 0.0] * 2, abs=0.011)
    told = Scenario(workload=found.workload, topology=found.topology).answer(20, 5)
    assert told.step.seconds == pytest.approx(fmean(found.steps), rel=0.02)
    more = found.workload.scaled(2.0).compute.on(6).later
    assert more == pytest.approx([2 * each for each in later[:6]])


@settings(max_examples=20)
@given(st.floats(-1e4, 1e4), st.booleans(), st.integers(5, 9))
def test_clocks_and_metrics_do_not_matter(ahead: float, metrics: bool, steps: int) -> None:
    """A wall clock may be hours off; it is only known to within the time of an exchange."""
    plain = calibrate(report(SIZES, COMPUTES[:steps]), "run.json")
    other = calibrate(report(SIZES, COMPUTES[:steps], ahead=ahead, metrics=metrics), "run.json")
    assert [each.nbytes for each in other.workload.gradients] == list(SIZES)
    ready = [each.ready for each in plain.workload.gradients]
    assert [each.ready for each in other.workload.gradients] == pytest.approx(ready, abs=1e-4)
    for here, there in zip(other.workload.compute.steps, plain.workload.compute.steps, strict=True):
        assert here == pytest.approx(there, abs=1e-5)
    assert len(other.steps) == len(plain.steps)
    assert sum(other.steps) == pytest.approx(sum(plain.steps), abs=0.1)


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    whole = report(SIZES, COMPUTES, named=True)
    (tmp_path / "run.json").write_text(to_json(whole))
    assert calibrate(read(tmp_path / "run.json"), "run.json") == calibrate(whole, "run.json")


def test_more_computation_is_more_computation() -> None:
    compute = (workload := calibrate(report(SIZES, COMPUTES), "run.json").workload).compute
    assert workload.scaled(3.0).compute.mean == pytest.approx(3 * compute.mean)
    for ranks in (4, 6):
        usual, more = compute.on(ranks), workload.scaled(3.0).compute.on(ranks)
        assert more.samples == pytest.approx([3 * each for each in usual.samples])
        assert more.together == pytest.approx([3 * each for each in usual.together])


def test_reports_that_cannot_be_simulated_are_refused_with_a_sentence() -> None:
    whole = report(SIZES, COMPUTES)
    crashed = replace(whole, missing={2: "rank 2 (host beta) died"})
    with pytest.raises(ValueError, match=r"run\.json is of a run that did not end well: rank 2 gave no figures"):
        calibrate(crashed, "run.json")
    with pytest.raises(ValueError, match="does not say when ranks made their calls"):
        calibrate(without_profiles(whole), "run.json")
    with pytest.raises(ValueError, match="shows 2 whole steps; at least 4"):
        calibrate(report(SIZES, COMPUTES[:3]), "run.json")
    with pytest.raises(ValueError, match="all_gather in its steps, but only all_reduce is simulated"):
        calibrate(_gathering(), "run.json")


def _gathering() -> Report:
    whole = report(SIZES, COMPUTES)
    ranks = []
    for rank in whole.ranks:
        profile = rank.figures.profile
        assert profile is not None
        exchanges = tuple(
            each._replace(collective="all_gather") if each.bytes == SIZES[1] else each for each in profile.exchanges
        )
        ranks.append(replace(rank, figures=replace(rank.figures, profile=replace(profile, exchanges=exchanges))))
    return replace(whole, ranks=tuple(ranks))
