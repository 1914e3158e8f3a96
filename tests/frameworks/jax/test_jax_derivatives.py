"""Derivatives and `jax.vmap` of collectives, beside JAX's own of the same function of all ranks' arrays at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from horovod_ranks import Ranks

import paceline.jax as pj

# What all ranks get, from what all give: arrays with a first dimension of ranks.
WHOLE: dict[str, Callable[[Any], Any]] = {
    "all_reduce": lambda xs: jnp.broadcast_to(xs.sum(0), xs.shape),
    "avg": lambda xs: jnp.broadcast_to(xs.mean(0), xs.shape),
    "max": lambda xs: jnp.broadcast_to(xs.max(0), xs.shape),
    "min": lambda xs: jnp.broadcast_to(xs.min(0), xs.shape),
    "product": lambda xs: jnp.broadcast_to(xs.prod(0), xs.shape),
    "all_gather": lambda xs: jnp.broadcast_to(xs, (xs.shape[0], *xs.shape)),
    "reduce_scatter": lambda xs: xs.sum(0),
    "scatter_avg": lambda xs: xs.mean(0),
    "broadcast": lambda xs: jnp.broadcast_to(xs[1], xs.shape),
    "all_to_all": lambda xs: xs.swapaxes(0, 1),
    "pmean": lambda xs: jnp.broadcast_to(xs.mean(0) * xs[1], xs.shape),
}
OURS: dict[str, Callable[[Any], Any]] = {
    "all_reduce": pj.all_reduce,
    "avg": lambda x: pj.all_reduce(x, "avg"),
    "max": lambda x: pj.all_reduce(x, "max"),
    "min": lambda x: pj.all_reduce(x, "min"),
    "product": lambda x: pj.all_reduce(x, "product"),
    "all_gather": pj.all_gather,
    "reduce_scatter": pj.reduce_scatter,
    "scatter_avg": lambda x: pj.reduce_scatter(x, "avg"),
    "broadcast": lambda x: pj.broadcast(x, 1),
    "all_to_all": pj.all_to_all,
    "pmean": lambda x: pj.pmean({"x": x, "unused": jnp.ones(2)})["x"] * pj.broadcast(x, 1),
}


def numbers(shape: tuple[int, ...]) -> Any:
    """Small integers, among them zeros and some that several ranks share."""
    return jnp.asarray(np.random.default_rng(5).integers(-2, 3, shape), jnp.float64)


def derivatives(rank: int, size: int) -> None:
    for name, whole in WHOLE.items():
        given, tangents = numbers((size, size, 3)), numbers((size, size, 3))[::-1]
        outcome, slopes = jax.jvp(whole, (given,), (tangents,))
        ours, slope = jax.jit(lambda x, t, name=name: jax.jvp(OURS[name], (x,), (t,)))(given[rank], tangents[rank])
        np.testing.assert_array_equal(ours, outcome[rank], err_msg=name)
        np.testing.assert_allclose(slope, slopes[rank], err_msg=name)
        weights = numbers(outcome.shape) + 3
        (gradient,) = jax.vjp(whole, given)[1](weights)
        ours = jax.jit(jax.grad(lambda x, name=name, mine=weights[rank]: (OURS[name](x) * mine).sum()))(given[rank])
        np.testing.assert_allclose(ours, gradient[rank], err_msg=name)


@pytest.mark.smoke
def test_derivatives_are_those_of_the_sum_of_all_losses(ranks: Ranks) -> None:
    ranks(derivatives)


def batches(rank: int, size: int) -> None:
    for name, ours in OURS.items():
        given = numbers((size, 3, 4)) + rank
        for axis in (1, 2):
            one_by_one = [jax.jit(ours)(each) for each in jnp.moveaxis(given, axis, 0)]
            batched = jax.jit(jax.vmap(ours, in_axes=axis))(given)
            np.testing.assert_array_equal(batched, jnp.stack(one_by_one), err_msg=name)
    gradients = jax.vmap(jax.grad(lambda x: pj.all_reduce(x * x).sum()))(given)
    np.testing.assert_array_equal(gradients, 2 * size * given)


def test_a_batch_is_each_of_its_arrays(ranks: Ranks) -> None:
    ranks(batches)


def through_programs(rank: int, size: int) -> None:
    x = jnp.arange(3.0) + rank

    def loss(x: Any) -> Any:
        def layer(x: Any, _: Any) -> tuple[Any, Any]:
            return jax.checkpoint(lambda x: pj.all_reduce(x * x, "avg"))(x), None

        return jax.lax.scan(layer, x, None, length=2)[0].sum()

    # y = mean over ranks of x²; the loss of each rank is y².
    y = sum((np.arange(3.0) + other) ** 2 for other in range(size)) / size
    for gradient in (jax.grad(loss), jax.jit(jax.grad(loss))):
        np.testing.assert_allclose(gradient(x), 4 * y * np.asarray(x))


def test_derivatives_through_loops_and_checkpoints(ranks: Ranks) -> None:
    ranks(through_programs)


def refused(rank: int, size: int) -> None:
    rows = jnp.ones((size, 3))
    for op in ("min", "max", "product"):
        with pytest.raises(NotImplementedError, match=f"^reduce_scatter with op='{op}' has no derivative; that of all"):
            jax.jvp(lambda x, op=op: pj.reduce_scatter(x, op), (rows,), (rows,))


def test_what_has_no_derivative_is_refused(ranks: Ranks) -> None:
    ranks(refused)
