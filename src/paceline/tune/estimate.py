"""Estimates of a setting's speed, with an interval, from few and noisy runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
"""The probability that an interval is meant to have."""
_RESAMPLES = 1000
_SEED = 26
"""Makes the same runs give the same interval every time."""

Rates = Sequence[Sequence[float]]
"""For each run, the rates of its blocks of consecutive steps."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and the interval in which it lies with the probability CONFIDENCE."""

    value: float
    low: float
    high: float


def estimate(runs: Rates) -> Estimate:
    """Return the median of all blocks, with a percentile interval from a two-stage bootstrap.

    Blocks of one run resemble each other more than blocks of different runs do, so runs are drawn first, with
    replacement, and then blocks in each of them: A. C. Davison and D. V. Hinkley, "Bootstrap Methods and their
    Application", 1997, section 3.8. The interval is that of B. Efron and R. J. Tibshirani, "An Introduction to the
    Bootstrap", 1993, section 13.3. Raises ValueError without any run.
    """
    return _interval(_median(runs), _resampled(runs, _SEED))


def ratio(one: Rates, other: Rates) -> Estimate:
    """Return how many times as fast `one` is as `other`; the interval is found as in `estimate`."""
    drawn = _resampled(one, _SEED) / _resampled(other, _SEED + 1)
    return _interval(_median(one) / _median(other), drawn)


def _median(runs: Rates) -> float:
    if not runs:
        raise ValueError("there is no run to estimate a rate from")
    return float(np.median(np.concatenate([np.asarray(run, np.float64) for run in runs])))


def _resampled(runs: Rates, seed: int) -> NDArray[np.float64]:
    chance = np.random.default_rng(seed)
    lengths = np.array([len(run) for run in runs])
    padded = np.array([[*run, *[0.0] * (lengths.max() - len(run))] for run in runs])
    drawn = chance.integers(len(runs), size=(_RESAMPLES, len(runs), 1))
    blocks = chance.integers(lengths[drawn], size=(_RESAMPLES, len(runs), lengths.max()))
    found: NDArray[np.float64] = np.median(padded[drawn, blocks], axis=(1, 2))
    return found


def _interval(value: float, drawn: NDArray[np.float64]) -> Estimate:
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, [outside, 1 - outside])
    return Estimate(value, min(float(low), value), max(float(high), value))
