"""Replicas of models in partitions: their computation, when gradients are whole, and the paper's speed-ups."""

from __future__ import annotations

from dataclasses import replace

import pytest
from recorded import report

from paceline.simulate import models, study
from paceline.simulate.calibrate import calibrate
from paceline.simulate.job import Compute
from paceline.simulate.models import Gradient
from paceline.simulate.network import uniform
from paceline.simulate.pipeline import pipelined, replicas
from paceline.simulate.question import Question, scenarios
from paceline.simulate.workload import Workload
from paceline.topology import Link

SERIAL = Workload(gradients=(Gradient("last", 8, 1 / 3), Gradient("first", 8, 1.0)), compute=Compute(seconds=1.2))


@pytest.mark.parametrize(("partitions", "microbatches"), [(1, 1), (1, 8), (2, 2), (4, 8)])
def test_a_step_is_that_of_a_pipeline(partitions: int, microbatches: int) -> None:
    """Each of M + P - 1 rounds does forward and backward of a microbatch in a partition."""
    found = pipelined(SERIAL, partitions, microbatches)
    each = 1.2 / partitions / microbatches
    assert found.compute.seconds == pytest.approx((microbatches + partitions - 1) * each)
    last, first = found.gradients
    assert first.ready == pytest.approx(1.0)
    # The last microbatch's backward goes through all partitions and takes two thirds of its forward and backward.
    assert last.ready * found.compute.seconds == pytest.approx(found.compute.seconds - partitions * each * 2 / 3)


def test_a_pipeline_of_one_is_the_rank() -> None:
    for found, gradient in zip(pipelined(SERIAL, 1, 1).gradients, SERIAL.gradients, strict=True):
        assert found == replace(gradient, ready=pytest.approx(gradient.ready))


def test_a_batch_is_divided_only_if_somebody_says_so() -> None:
    """In microbatches gradients are whole in the last one, so that less of their exchange is hidden."""
    (usual,) = scenarios(Question(ranks="16"), None)
    assert usual.workload.gradients == models.model("ResNet-50").gradients
    (divided,) = scenarios(Question(ranks="16", microbatches=4), None)
    assert divided.workload.gradients == pipelined(usual.workload, 1, 4).gradients
    (shared,) = scenarios(Question(ranks="16", partitions=2), None)
    assert shared.workload.gradients == pipelined(usual.workload, 2, 8).gradients


def test_the_run_of_a_report_keeps_its_overlap() -> None:
    run = calibrate(report((4 << 20, 1 << 20, 2 << 20), [[0.1] * 4] * 8), "run.json")
    (one,) = scenarios(Question(), run)
    assert one.workload == run.workload


def test_replicas_stay_on_a_machine() -> None:
    found = replicas(uniform(12, 4, Link(1e9, 1e9, 1e-5)), 2)
    assert [len(ranks) for _, ranks in found.machines()] == [2, 2, 2]
    with pytest.raises(ValueError, match="machine 0 has 4 ranks, which 3 partitions do not divide"):
        replicas(uniform(12, 4, Link(1e9, 1e9, 1e-5)), 3)


def test_a_question_with_partitions() -> None:
    (one,) = scenarios(Question(ranks="16", per_machine=4, partitions=4, microbatches=12, late=0.0), None)
    found = one.answer(2, 1)
    assert (found.ranks, found.partitions) == (16, 4)
    assert found.alone == pytest.approx(0.3 * 15 / (12 * 4))
    assert found.throughput == pytest.approx(4 / found.step.seconds)


def test_the_paper_s_speed_ups() -> None:
    """253 on 256 nodes and 481 on 512: within 3 points of efficiency."""
    rows = study.run(study.load("frontera-resnet1001"), lambda _: None, counted=4)
    for row, nodes in zip(rows, (256, 512), strict=True):
        assert row.paper is not None
        assert abs(row.simulated - row.paper) <= 0.03 * nodes
