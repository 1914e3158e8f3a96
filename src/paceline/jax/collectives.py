"""The collectives as functions of JAX arrays, inside and outside `jax.jit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from paceline import _engine
from paceline.group.arguments import OPS, reduction, whole
from paceline.jax import primitives
from paceline.jax.groups import use

if TYPE_CHECKING:
    from paceline.group.group import Group

Array = Any
"""A JAX array, or what `jax.numpy.asarray` makes one of."""


def all_reduce(x: Array, op: str = "sum", *, group: Group | None = None) -> jax.Array:
    """Combine `x` over all ranks; every rank gets the outcome, of the same shape and dtype.

    op: sum, avg, min, max, product; for integers also band, bor, bxor. Derivatives are there for the first five: each
    rank's is that of the sum of all ranks' losses. Where several ranks share the minimum or maximum they share its
    derivative.
    """
    (result,) = combined([x], "all_reduce", op, group)
    return result


def combined(values: Sequence[Array], call: str, op: str, group: Group | None) -> list[jax.Array]:
    """Combine each of `values` over all ranks, together. call: the name of the function, for errors.

    Raises what `all_reduce` raises.
    """
    group = use(group)
    arrays = [_array(value, call, group)[0] for value in values]
    return primitives.all_reduce_p.bind(*arrays, **_reducing(group, op, *arrays)) if arrays else []


def all_gather(x: Array, *, group: Group | None = None) -> jax.Array:
    """Stack the ranks' `x`: the result has the shape (size, *x.shape)."""
    array, group = _array(x, "all_gather", group)
    (gathered,) = primitives.all_gather_p.bind(array, **_parameters(group))
    return gathered


def reduce_scatter(x: Array, op: str = "sum", *, group: Group | None = None) -> jax.Array:
    """Combine `x`, of shape (size, ...), over all ranks; rank i gets row i of the outcome.

    op: as of `all_reduce`. Derivatives are there for sum and avg.
    """
    array, group = _array(x, "reduce_scatter", group, rows=True)
    (part,) = primitives.reduce_scatter_p.bind(array, **_reducing(group, op, array))
    return part


def broadcast(x: Array, root: int = 0, *, group: Group | None = None) -> jax.Array:
    """Give every rank the root's `x`; all ranks give an array of the same shape and dtype."""
    array, group = _array(x, "broadcast", group)
    if not 0 <= whole(root, "root") < group.size:
        raise ValueError(f"root must be from 0 to {group.size - 1}, got {root}")
    (received,) = primitives.broadcast_p.bind(array, **_parameters(group, int(root)))
    return received


def all_to_all(x: Array, *, group: Group | None = None) -> jax.Array:
    """Send row i of `x`, of shape (size, ...), to rank i; row i of the result is what rank i sent."""
    array, group = _array(x, "all_to_all", group, rows=True)
    (received,) = primitives.all_to_all_p.bind(array, **_parameters(group))
    return received


def barrier(*, group: Group | None = None) -> None:
    """Wait for all ranks. Inside `jax.jit` it stands between the collectives before and after it.

    Outside it returns once every rank has called it and all that this thread has called before is over.
    """
    (done,) = primitives.barrier_p.bind(jnp.zeros((), jnp.uint8), **_parameters(use(group)))
    if not isinstance(done, jax.core.Tracer):
        done.block_until_ready()


def _parameters(group: Group, option: int = 0) -> dict[str, int]:
    return {"group": group.channel, "size": group.size, "option": option}


def _reducing(group: Group, op: str, *arrays: jax.Array) -> dict[str, int]:
    """Raise ValueError if there is no such reduction, or none of such arrays."""
    number = reduction(op)
    if op == "premul_sum":
        raise ValueError("op='premul_sum' is not there: multiply by the factor and use op='sum'")
    for array in arrays:
        if not _engine.supports(_engine.DTYPES[array.dtype.name], number):
            raise ValueError(f"op={op!r} is not there for dtype {array.dtype.name}; {_others(array)}")
    return _parameters(group, number)


def _others(array: jax.Array) -> str:
    dtype = _engine.DTYPES[array.dtype.name]
    return "use " + ", ".join(
        op for op, number in OPS.items() if op != "premul_sum" and _engine.supports(dtype, number)
    )


def _array(x: Array, call: str, group: Group | None, *, rows: bool = False) -> tuple[jax.Array, Group]:
    """Return `x` as an array, and the group. rows: it has a row for each rank.

    Raises TypeError for a dtype that the engine does not have, and ValueError for another number of rows.
    """
    group, array = use(group), jnp.asarray(x)
    if array.dtype.name not in _engine.DTYPES:
        raise TypeError(f"{call}: dtype {array.dtype.name} is not supported; use one of {', '.join(_engine.DTYPES)}")
    if rows and (array.ndim == 0 or array.shape[0] != group.size):
        raise ValueError(f"{call}: the first dimension must be {group.size}, one row a rank, got shape {array.shape}")
    return array, group
