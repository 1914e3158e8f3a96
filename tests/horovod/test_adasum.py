"""Adasum against its formula in float64, and what the paper says of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from horovod_ranks import Ranks
from hypothesis import given
from hypothesis import strategies as st

from paceline.horovod.adasum import Total, adasum, exchange

SEEDS = st.integers(0, 2**32 - 1)


def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Equation 5 of the paper, word for word."""
    dot = float((a * b).sum())
    return (1 - dot / (2 * float((a * a).sum()))) * a + (1 - dot / (2 * float((b * b).sum()))) * b


def tree(gradients: list[np.ndarray]) -> np.ndarray:
    """Those beyond a power of two join the first ones; then neighbours in pairs, then pairs of pairs."""
    power = 1 << (len(gradients).bit_length() - 1)
    beyond = gradients[power:]
    gradients = [pair(*both) for both in zip(gradients, beyond, strict=False)] + gradients[len(beyond) : power]
    while len(gradients) > 1:
        gradients = [pair(gradients[i], gradients[i + 1]) for i in range(0, len(gradients), 2)]
    return gradients[0]


def together(gradients: list[np.ndarray]) -> tuple[list[np.ndarray], list[int]]:
    """`exchange` on all ranks in one process: their outcomes, and how many elements each sent."""
    size = len(gradients)
    ranks = [exchange(rank, size, gradient) for rank, gradient in enumerate(gradients)]
    outcomes: list[np.ndarray] = []
    sent = [0] * size
    answers: list[np.ndarray | None] = [None] * size
    while not outcomes:
        steps = []
        for rank, answer in enumerate(answers):
            try:
                steps.append(ranks[rank].send(answer))  # type: ignore[arg-type]
            except StopIteration as stop:
                outcomes.append(stop.value)
        assert not (steps and outcomes), "all ranks take the same steps"
        if steps and isinstance(steps[0], Total):
            totals = np.zeros((steps[0].teams, 3))
            for step in steps:
                assert step.teams == len(totals)
                if step.team is not None:
                    totals[step.team] += step.numbers
            answers = [totals[step.team or 0] for step in steps]
        else:
            answers = [np.empty(0)] * size
            for rank, step in enumerate(steps):
                assert step.peer is not None or step.data is None
                if step.peer is not None and step.data is not None:
                    assert steps[step.peer].peer == rank
                    answers[step.peer] = step.data.copy()
                    sent[rank] += step.data.size
    return outcomes, sent


@given(SEEDS, st.integers(1, 17), st.integers(1, 50))
def test_vector_halving_and_distance_doubling(seed: int, size: int, count: int) -> None:
    gradients = list(np.random.default_rng(seed).normal(size=(size, count)))
    right = tree(gradients)
    narrow = [gradient.astype(np.float32) for gradient in gradients]
    for mine, eps in ((gradients, 1e-11), (narrow, 1e-4)):
        outcomes, sent = together(mine)
        assert all(outcome.tobytes() == outcomes[0].tobytes() for outcome in outcomes)
        assert outcomes[0].dtype == mine[0].dtype
        np.testing.assert_allclose(outcomes[0], right, rtol=eps, atol=eps * np.abs(right).max())
        # Halves of halves and back; a rank beyond the power of two gives all of it and gets the outcome.
        power = 1 << (size.bit_length() - 1)
        assert max(sent) <= (3 if size > power else 2) * count + 2 * power


@given(SEEDS, st.integers(1, 9), st.integers(1, 50))
def test_in_one_place(seed: int, size: int, count: int) -> None:
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
    outcome += check_large(rank, size)
    return outcome


def check_large(rank: int, size: int) -> list[list[float]]:
    """Too large to be gathered: the ranks exchange parts; they may wait for the outcomes in any order."""
    import paceline.horovod.torch as hvd

    counts = (150011, 140000, 77777)
    dtypes = (torch.float16, torch.float32, torch.float64)
    everyone = [
        [torch.randn(n, generator=torch.Generator().manual_seed(n + other)).to(dtype) for other in range(size)]
        for n, dtype in zip(counts, dtypes, strict=True)
    ]
    given = [hvd.allreduce_async(each[rank], name=f"large{n}", op=hvd.Adasum) for n, each in enumerate(everyone)]
    outcomes: dict[int, torch.Tensor] = {}
    for number in range(3) if rank % 2 else reversed(range(3)):
        outcomes[number] = hvd.synchronize(given[number])
        hvd.allreduce(torch.ones(3), name="between")
    for number, each in enumerate(everyone):
        right = tree([gradient.double().numpy() for gradient in each])
        eps = 8 * torch.finfo(dtypes[number]).eps
        assert outcomes[number].dtype == dtypes[number]
        np.testing.assert_allclose(outcomes[number].double(), right, rtol=eps, atol=eps)
    with pytest.raises(hvd.HorovodInternalError, match="uneven"):
        hvd.allreduce(torch.ones(140000 + rank), name="uneven", op=hvd.Adasum)
    if rank == size - 1:  # this rank joins: the others go on without it
        hvd.join()
    else:
        alone = hvd.allreduce(everyone[1][rank], name="alone", op=hvd.Adasum)
        right = tree([gradient.double().numpy() for gradient in everyone[1][: size - 1]])
        np.testing.assert_allclose(alone.double(), right, rtol=1e-5, atol=1e-5)
        hvd.join()
    return [outcomes[number].double().tolist() for number in range(3)]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_every_rank_gets_the_same_bits(ranks: Ranks, size: int) -> None:
    first, *others = ranks(check_ranks, size)
    assert all(other == first for other in others)
