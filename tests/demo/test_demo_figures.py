"""The figures and the verdict, from times made up by hand."""

import pytest
import torch
from results import a_result, some_figures

from paceline.cli.demo.figure import Figure, figure
from paceline.cli.demo.figures import figures, step_times
from paceline.cli.demo.meter import Meter, StepTimes
from paceline.cli.demo.result import WEIGHT_TOLERANCE

MS = 1_000_000


def test_figures_of_two_ranks_with_one_late() -> None:
    """Rank 1 issues both buckets 2 ms late; each is complete 1 ms after that."""
    early = [11, 0, 4, 3, 7]  # backward end, issued, issued, completed, completed
    late = [11, 2, 6, 3, 7]
    times = torch.tensor([[[early, early]], [[late, late]]]) * MS
    found = figures(torch.tensor([50.0]), torch.tensor([20.0]), times, batch=50)
    assert found.images_per_second.median == pytest.approx(1000)
    assert found.step_ms.median == pytest.approx(50)
    assert found.added_ms.median == pytest.approx(30)
    assert found.total_ms.median == pytest.approx((6 + 2) / 2)
    assert found.transfer_ms.median == pytest.approx(2)
    assert found.exposed_ms.median == pytest.approx((7 + 5) / 2)
    assert found.total_s == pytest.approx(2 * 4e-3)
    assert found.exposed_s == pytest.approx(2 * 6e-3)
    assert found.buckets == 2


def test_overlapping_buckets_count_once() -> None:
    """In flight from 0 to 5 and from 4 to 9, then from 10 to 11; the fourth lies inside the third."""
    step = [11, 0, 4, 10, 10, 5, 9, 11, 11]
    found = figures(torch.ones(1), torch.ones(1), torch.tensor([[[step]]]) * MS, batch=1)
    assert found.total_ms.median == found.transfer_ms.median == pytest.approx(10)


def test_an_epoch_lasts_from_the_first_rank_to_the_last() -> None:
    spans = torch.tensor([[[0, 90], [100, 120]], [[10, 100], [101, 122]]]) * MS
    assert step_times(spans, steps=2).tolist() == [50.0, 11.0]


def test_a_slow_epoch_moves_the_spread_and_not_the_median() -> None:
    assert figure([1.0, 30.0, 2.0]) == Figure(2.0, pytest.approx((16 - 1.5) / 2), (1.0, 30.0, 2.0))


def test_meter_leaves_out_the_step_before_the_buckets_changed() -> None:
    meter = Meter.__new__(Meter)
    meter._steps = [StepTimes([1], [2], 3), StepTimes([4, 5], [6, 7], 8)]
    assert meter.take().tolist() == [[8, 4, 5, 6, 7]]


def test_verdict() -> None:
    assert a_result().faults() == []
    for bad, words in (
        (a_result(accuracy=0.9699), "accuracy 97.0% is below 97%"),
        (a_result(reference=2 * WEIGHT_TOLERANCE), "of gloo by 6.0e-05"),
        (a_result(alone=float("nan")), "of one process by nan"),
        (a_result(same=False), "ranks do not have the same weights"),
    ):
        assert len(bad.faults()) == 1
        assert words in bad.faults()[0]
        assert bad.to_json()["passed"] is False


def test_ratios_and_why_there_is_none() -> None:
    better = some_figures(
        images_per_second=[30.0] * 11, exposed_ms=[5.0] * 11, exposed_s=5.0, added_ms=[-11.0, 3.0] * 5 + [4.0]
    )
    result = a_result(tested=better).to_json()
    within = "the difference is within its spread"
    assert result["ratio"] == {
        "images_per_second": 3.0,
        "step_ms": None,
        "added_ms": None,
        "total_ms": None,
        "transfer_ms": None,
        "exposed_ms": 0.5,
        "total_s": None,
        "exposed_s": 0.5,
    }
    assert result["no_ratio"] == {
        "step_ms": within,
        "added_ms": "paceline's is within its spread of zero",
        "total_ms": within,
        "transfer_ms": within,
        "total_s": within,
    }
