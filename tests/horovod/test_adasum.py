"""Adasum against its formula in float64, and what the paper says of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from horovod_ranks import Ranks
from hypothesis import given
from hypothesis import strategies as st

from paceline.adasum import adasum

SEEDS = st.integers(0, 2**32 - 1)


def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equation 5 of the paper, word for word."""
    dot = float((a * b).sum())
    return (1 - dot / (2 * float((a * a).sum()))) * a + (1 - dot / (2 * float((b * b).sum()))) * b


def tree(gradients: list[np.ndarray]) -> np.ndarray:
    """Neighbours in pairs, then pairs of pairs."""
    while len(gradients) > 1:
        gradients = [pair(gradients[i], gradients[i + 1]) for i in range(0, len(gradients), 2)]
    return gradients[0]


@given(SEEDS, st.sampled_from([1, 2, 4, 8]), st.integers(1, 50))
def test_powers_of_two(seed: int, size: int, count: int) -> None:
    gradients = list(np.random.default_rng(seed).normal(size=(size, count)))
    np.testing.assert_allclose(adasum(gradients), tree(gradients), rtol=1e-12, atol=1e-12)


@given(SEEDS, st.integers(1, 9))
def test_equal_gradients_are_averaged_and_orthogonal_ones_added(seed: int, size: int) -> None:
    choice = np.random.default_rng(seed)
    one = choice.normal(size=20)
    np.testing.assert_allclose(adasum([one] * size), one, rtol=1e-12)
    apart = [np.where(np.arange(45) // 5 == rank, choice.normal(size=45), 0.0) for rank in range(size)]
    np.testing.assert_allclose(adasum(apart), sum(apart), rtol=1e-12)


@given(SEEDS, st.floats(1e-3, 1e3))
def test_scaling_all_gradients_scales_the_outcome(seed: int, factor: float) -> None:
    gradients = list(np.random.default_rng(seed).normal(size=(4, 10)))
    np.testing.assert_allclose(adasum([factor * g for g in gradients]), factor * adasum(gradients), rtol=1e-9)


def test_zeros_count_as_nobody() -> None:
    one = np.array([3.0, 4.0], np.float32)
    assert adasum([one, np.zeros_like(one), np.zeros_like(one)]).tolist() == one.tolist()
    tiny = np.full(2, 1e-200)
    assert np.isfinite(adasum([tiny, tiny])).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes(dtype: type) -> None:
    gradients = [np.random.default_rng(rank).normal(size=(3, 5)).astype(dtype) for rank in range(4)]
    given = adasum(gradients)
    assert given.dtype == dtype and given.shape == (3, 5)
    right = tree([gradient.astype(np.float64) for gradient in gradients])
    np.testing.assert_allclose(given, right, rtol=8 * np.finfo(dtype).eps, atol=8 * np.finfo(dtype).eps)


def check_ranks(rank: int, size: int) -> list[list[float]]:
    import paceline.horovod.torch as hvd

    outcome = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        gradients = [
            torch.randn(3, 4, generator=torch.Generator().manual_seed(other)).to(dtype) for other in range(size)
        ]
        right = adasum([gradient.double().numpy() for gradient in gradients])
        mine = gradients[rank].clone()
        given = hvd.allreduce(mine, op=hvd.Adasum)
        assert given.dtype == dtype and torch.equal(mine, gradients[rank])
        eps = torch.finfo(dtype).eps
        np.testing.assert_allclose(given.double(), right, rtol=8 * eps, atol=8 * eps)
        assert torch.equal(hvd.allreduce_(mine, op=hvd.Adasum), given) and torch.equal(mine, given)
        scaled = hvd.allreduce(gradients[rank], op=hvd.Adasum, prescale_factor=2.0, postscale_factor=0.5)
        np.testing.assert_allclose(scaled.double(), right, rtol=16 * eps, atol=16 * eps)
        pair = hvd.grouped_allreduce([gradients[rank], gradients[rank] * 3], op=hvd.Adasum)
        assert torch.equal(pair[0], given)
        outcome.append(given.double().flatten().tolist())
    assert hvd.allreduce(torch.empty(0), op=hvd.Adasum).shape == (0,)
    return outcome


@pytest.mark.parametrize("size", [2, 3])
def test_every_rank_gets_the_same_bits(ranks: Ranks, size: int) -> None:
    first, *others = ranks(check_ranks, size)
    assert all(other == first for other in others)
