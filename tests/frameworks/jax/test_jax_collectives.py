"""Collectives inside and outside `jax.jit`, beside NumPy's answer; numbers are integers, so that all must be equal."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from horovod_ranks import Ranks

import paceline.jax as pj
from paceline import _engine

OPS = {"sum": np.sum, "avg": np.mean, "min": np.min, "max": np.max, "product": np.prod}


def stacked(size: int, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """What each rank gives, by rank. Means are whole, and products fit into each dtype."""
    numbers = np.arange(size * int(np.prod(shape))).reshape(size, *shape) % 5
    return (2 * numbers).astype(jnp.dtype(dtype)) if dtype != "bool" else (numbers % 2).astype(bool)


def every_dtype(rank: int, size: int) -> None:
    jitted = jax.jit(pj.all_reduce, static_argnames="op")
    for dtype, code in _engine.DTYPES.items():
        given = stacked(size, (3, 4), dtype)
        mine = jnp.asarray(given[rank])
        for op, function in OPS.items():
            if not _engine.supports(code, _engine.OPS[op.upper()]) or (op == "avg" and mine.dtype.kind in "iu"):
                continue
            wanted = function(given.astype(np.float64), axis=0).astype(given.dtype)
            for result in (pj.all_reduce(mine, op), jitted(mine, op=op)):
                assert result.dtype == mine.dtype
                np.testing.assert_array_equal(np.asarray(result), wanted, err_msg=f"{op} {dtype}")
        np.testing.assert_array_equal(jax.jit(pj.all_gather)(mine), given)
        np.testing.assert_array_equal(jax.jit(pj.broadcast, static_argnames="root")(mine, root=size - 1), given[-1])
        rows = stacked(size, (size, 3), dtype)
        np.testing.assert_array_equal(jax.jit(pj.all_to_all)(jnp.asarray(rows[rank])), rows[:, rank])
        if dtype != "bool":
            parts = np.sum(rows, axis=0, dtype=rows.dtype)
            np.testing.assert_array_equal(jax.jit(pj.reduce_scatter)(jnp.asarray(rows[rank])), parts[rank])


@pytest.mark.smoke
def test_every_dtype_arrives_as_numpy_says(ranks: Ranks) -> None:
    ranks(every_dtype)


def any_shape(rank: int, size: int) -> None:
    for shape in ((), (0,), (3, 0, 2), (1,), (2, 3, 4)):
        mine = jnp.full(shape, float(rank + 1))
        total = float(sum(range(1, size + 1)))
        np.testing.assert_array_equal(pj.all_reduce(mine), np.full(shape, total))
        assert pj.all_gather(mine).shape == (size, *shape)
        np.testing.assert_array_equal(pj.broadcast(mine, size - 1), np.full(shape, float(size)))
        np.testing.assert_array_equal(pj.reduce_scatter(jnp.stack([mine] * size)), np.full(shape, total))
    transposed = jnp.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(jax.jit(lambda x: pj.all_reduce(x.T))(transposed), size * np.asarray(transposed).T)
    pj.barrier()


@pytest.mark.parametrize("size", [1, 2])
def test_scalars_and_empty_arrays_too(ranks: Ranks, size: int) -> None:
    ranks(any_shape, size)


def worked(x: Any, times: int) -> Any:
    """Give `x` back after some work that XLA cannot leave out."""
    whole = jnp.eye(x.size) + 0 * jnp.outer(x, x)
    for _ in range(times):
        whole = whole @ whole
    return whole @ x


def in_order(rank: int, size: int) -> None:
    inner = jax.jit(lambda x: pj.all_reduce(worked(x, 1)))
    arrays = [jnp.full(100, i + 1.0) for i in range(20)]
    wanted = [np.full(100, size * (i + 1.0)) for i in range(20)]

    # Nothing in the data orders these, all have the same shape, and each rank has them ready in another order.
    different = jax.jit(lambda xs: [pj.all_reduce(worked(x, (7 * i + 3 * rank) % 5)) for i, x in enumerate(xs)])
    same = jax.jit(lambda xs: [inner(x) for x in xs])
    for program in (different, same):
        for _ in range(3):
            results = [program(arrays), program(arrays[::-1])[::-1]]  # the second starts before the first is over
            for result in results:
                np.testing.assert_array_equal(np.stack(result), np.stack(wanted))


def test_collectives_keep_the_order_of_the_program(ranks: Ranks) -> None:
    ranks(in_order)


def in_control_flow(rank: int, size: int) -> None:
    x = jnp.arange(3.0) + rank

    def body(carry: Any, _: Any) -> tuple[Any, Any]:
        return pj.all_reduce(carry), carry[0]

    last, first = jax.lax.scan(body, x, None, length=3)
    np.testing.assert_array_equal(last, 4 * (2 * np.arange(3.0) + 1))
    np.testing.assert_array_equal(first, [rank, 1, 2])
    np.testing.assert_array_equal(
        jax.jit(lambda x: jax.lax.while_loop(lambda x: x[0] < 4, pj.all_reduce, x))(x), 4 * (2 * np.arange(3.0) + 1)
    )
    taken = jax.jit(lambda x: jax.lax.cond(x[2] > 0, pj.all_reduce, lambda x: x, x))(x)
    np.testing.assert_array_equal(taken, 2 * np.arange(3.0) + 1)

    @jax.jit
    def unused(x: Any) -> Any:
        pj.all_reduce(x)  # is carried out nevertheless, on all ranks
        return x + 1

    unused(x)
    np.testing.assert_array_equal(pj.all_reduce(x), 2 * np.arange(3.0) + 1)


def test_loops_and_branches(ranks: Ranks) -> None:
    ranks(in_control_flow)


def tree_of(rank: int) -> dict[str, Any]:
    return {
        "w": jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3) * 2 * rank,
        "b": [
            jnp.full((4,), 2.0 * rank, jnp.bfloat16),
            jnp.float32(rank * 4),
            jnp.full((2, 2), 6.0 * rank, jnp.float64),
        ],
        "none": None,
        "h": (jnp.full((3,), 2.0 * rank, jnp.float16), jnp.zeros((0, 2))),
    }


def mean_of_trees(rank: int, size: int) -> None:
    wanted = jax.tree.map(lambda *leaves: sum(leaves) / size, *(tree_of(other) for other in range(size)))
    for mean in (pj.pmean(tree_of(rank)), jax.jit(pj.pmean)(tree_of(rank))):
        jax.tree.map(np.testing.assert_array_equal, mean, wanted)
        assert jax.tree.map(lambda x: x.dtype, mean) == jax.tree.map(lambda x: x.dtype, tree_of(rank))
    assert pj.pmean({}) == {}
    with pytest.raises(ValueError, match=r"^pmean: a leaf of dtype int32 has no mean of that dtype$"):
        pj.pmean({"steps": jnp.int32(3)})


@pytest.mark.smoke
def test_the_mean_of_a_tree(ranks: Ranks) -> None:
    ranks(mean_of_trees)


def of_a_part(rank: int, size: int) -> None:
    import paceline.jax.groups as groups

    part = groups.use(None).split(rank % 2)
    assert part is not None
    total = jax.jit(lambda x: pj.all_reduce(pj.all_reduce(x, group=part)))(jnp.float32(rank))
    assert total == 2 * sum(range(size))
    part.close()


def test_a_group_of_some_ranks(ranks: Ranks) -> None:
    ranks(of_a_part, 4, machines="0011")


def refused(rank: int, size: int) -> None:
    x = jnp.ones(3)
    for error, text, call in (
        (
            TypeError,
            "all_reduce: dtype int16 is not supported; use one of float16,",
            lambda: pj.all_reduce(jnp.int16(1)),
        ),
        (TypeError, "all_gather: dtype complex64 is not", lambda: pj.all_gather(jnp.complex64(1))),
        (ValueError, "no such reduction: 'prod'; use one of sum,", lambda: pj.all_reduce(x, "prod")),
        (ValueError, "op='premul_sum' is not there: multiply", lambda: pj.all_reduce(x, "premul_sum")),
        (ValueError, "op='bor' is not there for dtype float32; use sum,", lambda: pj.all_reduce(jnp.float32(1), "bor")),
        (ValueError, "all_to_all: the first dimension must be 2, one row a rank, got shape", lambda: pj.all_to_all(x)),
        (ValueError, "reduce_scatter: the first dimension must be 2,", lambda: pj.reduce_scatter(jnp.float32(1))),
        (ValueError, "root must be from 0 to 1, got 2", lambda: pj.broadcast(x, 2)),
    ):
        with pytest.raises(error) as caught:
            jax.jit(call)()
        assert text in str(caught.value)


@pytest.mark.smoke
def test_what_makes_no_sense_is_refused_in_a_sentence(ranks: Ranks) -> None:
    ranks(refused)


def test_a_job_must_be_joined_first() -> None:
    with pytest.raises(RuntimeError, match=r"^this process has joined no job: call paceline\.jax\.init\(\) first"):
        pj.all_reduce(jnp.ones(3))
