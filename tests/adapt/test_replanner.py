"""What is made of a measurement: plans only follow what explains the pace."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paceline.adapt.replanner import Call, Replanner
from paceline.topology import Topology, parse
from paceline.topology.discover import Placement
from paceline.topology.measured import Measured

CALL = Call("all_reduce", 64 << 20)


def network(*speeds: float) -> Topology:
    machines = [f"{{machine: m{number}, ranks: 1, uplink: {speed} Mbit/s}}" for number, speed in enumerate(speeds)]
    return parse(f"children: [{', '.join(machines)}]")


class Job:
    """A replanner of ranks on a machine each, which takes all links for equal, and what it did."""

    def __init__(self, *found: float) -> None:
        self.planned: list[Placement] = []
        self.looked_for_switches: list[bool] = []
        ranks, unknown = tuple(range(len(found))), np.full((len(found), len(found)), np.nan)

        def measure(between: Any, switches: bool) -> tuple[Placement, Measured]:
            self.looked_for_switches.append(switches)
            return Placement(network(*found), ranks), Measured(unknown, unknown, unknown[0], unknown[0])

        native = SimpleNamespace(rank=0, set_plans=lambda plans: None)
        self.replanner = Replanner(
            native, Placement(network(*[500.0] * len(found)), ranks), measure, self.planned.append
        )

    def calls(self, count: int, ratio: float) -> float | None:
        """After so many calls that take `ratio` times what they should."""
        return self.replanner.changed([CALL] * count, np.full(count, ratio * self.replanner.expected(CALL)))


def test_links_that_explain_the_pace_are_planned_for(caplog: pytest.LogCaptureFixture) -> None:
    job = Job(500.0, 500.0, 160.0)
    ratio = job.calls(5, 3.1)
    assert ratio == pytest.approx(3.1)
    job.replanner.plan_again(ratio, None)
    (planned,) = job.planned
    assert planned.topology.root.children[2].uplink == network(160).root.children[0].uplink
    assert job.looked_for_switches == [False]
    assert "3.1 times as long as usual" in caplog.text and "plans made again: m0 500 Mbit/s" in caplog.text
    assert job.calls(20, 1.0) is None


@pytest.mark.parametrize("found", [(500.0,) * 3, (500.0, 900.0, 500.0), (500.0,) * 4])
def test_links_that_do_not_are_left_alone(found: tuple[float, ...], caplog: pytest.LogCaptureFixture) -> None:
    """Busy cores: where there can be switches they are looked for too, and then this pace is the usual one."""
    job = Job(*found)
    ratio = job.calls(5, 3.0)
    assert ratio is not None
    job.replanner.plan_again(ratio, None)
    if len(found) == 4:
        ratio = job.calls(5, 3.0)
        assert ratio is not None
        job.replanner.plan_again(ratio, None)
    assert not job.planned and job.looked_for_switches == [False, True][: len(found) - 2]
    assert "plans stay" in caplog.text and caplog.records[0].levelno == logging.WARNING
    assert job.calls(50, 3.0) is None
