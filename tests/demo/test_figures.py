"""The figures and the verdict, from times made up by hand."""

import dataclasses

import pytest
import torch

from paceline.demo.figures import Figure, Figures, figures
from paceline.demo.meter import Meter, StepTimes
from paceline.demo.result import WEIGHT_TOLERANCE, Agreement, Result, Setup, Side

MS = 1_000_000


def test_figures_of_two_ranks_with_one_late() -> None:
    """Rank 1 issues both buckets 2 ms late; each is complete 1 ms after that."""
    early = [11, 0, 4, 3, 7]  # backward end, issued, issued, completed, completed
    late = [11, 2, 6, 3, 7]
    times = torch.tensor([[[early, early]], [[late, late]]]) * MS
    spans = torch.tensor([[[0, 90]], [[10, 100]]]) * MS
    found = figures(spans, times, batch=50)
    assert found.images_per_second.median == pytest.approx(1000)
    assert found.step_ms.median == pytest.approx(50)
    assert found.total_ms.median == pytest.approx((6 + 2) / 2)
    assert found.transfer_ms.median == pytest.approx(2)
    assert found.exposed_ms.median == pytest.approx((7 + 5) / 2)
    assert found.all_s == pytest.approx(0.1)
    assert found.total_s == pytest.approx(2 * 4e-3)
    assert found.exposed_s == pytest.approx(2 * 6e-3)
    assert found.buckets == 2


def test_overlapping_buckets_count_once() -> None:
    """In flight from 0 to 5 and from 4 to 9, then from 10 to 11; the fourth lies inside the third."""
    step = [11, 0, 4, 10, 10, 5, 9, 11, 11]
    found = figures(torch.tensor([[[0, 12]]]) * MS, torch.tensor([[[step]]]) * MS, batch=1)
    assert found.total_ms.median == found.transfer_ms.median == pytest.approx(10)


def test_figures_are_medians_over_epochs() -> None:
    """Three epochs of one step; a slow one moves the spread, not the median."""
    times = torch.zeros(1, 3, 1, 3, dtype=torch.int64)
    times[0, :, 0, 2] = torch.tensor([1, 2, 30]) * MS
    spans = torch.tensor([[[0, 1], [1, 3], [3, 33]]]) * MS
    found = figures(spans, times, batch=1)
    assert found.total_ms == Figure(2.0, pytest.approx((16 - 1.5) / 2))
    assert found.step_ms.median == pytest.approx(2)


def test_meter_refuses_steps_with_different_buckets() -> None:
    meter = Meter.__new__(Meter)
    meter._steps = [StepTimes([1], [2], 3), StepTimes([1, 1], [2, 2], 3)]
    with pytest.raises(ValueError, match="expected sequence of length"):
        meter.take()


def a_result(accuracy: float = 0.99, reference: float = 1e-7, alone: float = 1e-7, same: bool = True) -> Result:
    one = Figure(1.0, 0.0)
    setup = Setup("2.13", 4, 2, 12, 22, 64, 1437, 360, 10, 40)
    sides = [Side(name, accuracy, Figures(one, one, one, one, one, 9.0, 2.0, 1.0, 2)) for name in ("paceline", "gloo")]
    return Result(setup, *sides, Agreement(reference, alone, same))


def test_verdict() -> None:
    assert a_result().faults() == []
    for bad, words in (
        (a_result(accuracy=0.9699), "accuracy 97.0% is below 97%"),
        (a_result(reference=2 * WEIGHT_TOLERANCE), "of gloo by 2.0e-05"),
        (a_result(alone=float("nan")), "of one process by nan"),
        (a_result(same=False), "ranks don't hold the same weights"),
    ):
        assert len(bad.faults()) == 1
        assert words in bad.faults()[0]
        assert bad.to_json()["passed"] is False


def test_ratios() -> None:
    result = a_result()
    faster = dataclasses.replace(result.tested.figures, images_per_second=Figure(3.0, 0.0), exposed_ms=Figure(0.5, 0.0))
    result = dataclasses.replace(result, tested=dataclasses.replace(result.tested, figures=faster))
    assert result.to_json()["ratio"] == {
        "images_per_second": 3.0,
        "step_ms": 1.0,
        "total_ms": 1.0,
        "transfer_ms": 1.0,
        "exposed_ms": 0.5,
        "all_s": 1.0,
        "total_s": 1.0,
        "exposed_s": 1.0,
    }
