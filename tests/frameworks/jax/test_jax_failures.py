"""Whatever goes wrong ends the program that waits for it, with Paceline's words."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from horovod_ranks import Ranks

import paceline.jax as pj


def disagree(rank: int, size: int) -> str:
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.jit(pj.all_reduce)(jnp.ones(3 + rank, jnp.float32)).block_until_ready()
    return str(caught.value)


def test_ranks_that_disagree_are_told_of_both_calls(ranks: Ranks) -> None:
    for text in ranks(disagree, 2, deadline=60, fresh=True):
        assert "ranks disagree" in text
        assert all(f"float32[{count}] SUM" in text for count in (3, 4))


def differ_in_shape(rank: int, size: int) -> None:
    weight, bias = jnp.full((4,), 1.0), jnp.full((2,), 2.0)
    calls = [
        lambda: pj.all_reduce(jnp.arange(6.0).reshape((2, 3) if rank == 0 else (6,))),
        lambda: pj.pmean([weight, bias] if rank == 0 else [bias, weight])[0],
        lambda: pj.broadcast(jnp.ones((2, 3) if rank == 0 else (3, 2))),
        lambda: jax.jit(lambda x: pj.all_reduce(x.reshape((3, 2) if rank == 0 else (2, 3))))(jnp.arange(6.0)),
    ]
    for call in calls:
        with pytest.raises(jax.errors.JaxRuntimeError, match="ranks disagree about the shapes"):
            call().block_until_ready()
    assert pj.pmean([weight, bias])[1].tolist() == [2.0, 2.0]
    assert pj.pmean([weight, bias])[1].tolist() == [2.0, 2.0]


def test_arrays_of_as_many_elements_must_have_the_same_shapes(ranks: Ranks) -> None:
    ranks(differ_in_shape, 2, deadline=60, fresh=True)


def lose_rank_1(rank: int, size: int, file: str) -> None:
    step = jax.jit(lambda x: pj.all_reduce(x + 1))
    step(jnp.ones(3)).block_until_ready()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        step(jnp.ones(3)).block_until_ready()
    Path(file).write_text(str(caught.value))


def test_a_lost_rank_is_named_and_ends_the_program(ranks: Ranks, tmp_path: Path) -> None:
    file = tmp_path / "said"
    with pytest.raises(AssertionError, match="the process died with exit code -9"):
        ranks(lose_rank_1, 2, deadline=60, fresh=True, file=str(file))
    assert "all_reduce #2" in file.read_text()
    assert "rank 1" in file.read_text()
    assert "died" in file.read_text()


def wait_in_vain(rank: int, size: int) -> str:
    if rank == 1:
        pj.barrier()
        return ""
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        pj.all_reduce(jnp.ones(3)).block_until_ready()
    return str(caught.value)


def test_a_barrier_that_meets_another_collective_is_a_mismatch(ranks: Ranks) -> None:
    with pytest.raises(AssertionError, match=r"ranks disagree.*barrier"):
        ranks(wait_in_vain, 2, deadline=60, fresh=True)
