"""The derivatives of the collectives, forward and reverse, and what `jax.vmap` makes of them.

The reverse derivative is that of the sum of all ranks' losses: each rank's cotangent counts once. So the transpose of
an all-reduce with sum is one itself, that of an all-gather is a reduce-scatter, and the other way round.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching

from paceline.group.arguments import OPS
from paceline.jax.groups import executor
from paceline.jax.primitives import all_gather_p, all_reduce_p, all_to_all_p, barrier_p, broadcast_p, reduce_scatter_p

_AVG, _SUM = OPS["avg"], OPS["sum"]
_NAMES = {number: name for name, number in OPS.items()}


def _jvp(primitive: Primitive, values: Sequence[Any], tangents: Sequence[Any], **parameters: int) -> Any:
    """The rule of a collective that is linear."""
    results = primitive.bind(*values, **parameters)
    given = [i for i, tangent in enumerate(tangents) if not isinstance(tangent, ad.Zero)]
    outcome = [ad.Zero(jax.typeof(each).to_tangent_aval()) for each in results]
    if given:
        for i, tangent in zip(given, primitive.bind(*(tangents[i] for i in given), **parameters), strict=True):
            outcome[i] = tangent
    return results, outcome


def _jvp_all_reduce(values: Sequence[Any], tangents: Sequence[Any], **parameters: int) -> Any:
    op = _NAMES[parameters["option"]]
    if op in ("sum", "avg"):
        return _jvp(all_reduce_p, values, tangents, **parameters)
    weigh = {"max": _share_of_extreme, "min": _share_of_extreme, "product": _product_of_others}.get(op)
    if weigh is None:
        raise NotImplementedError(f"all_reduce with op={op!r} has no derivative")
    results = all_reduce_p.bind(*values, **parameters)
    weighted = [
        tangent if isinstance(tangent, ad.Zero) else tangent * weigh(value, result, parameters)
        for value, result, tangent in zip(values, results, tangents, strict=True)
    ]
    return results, _jvp(all_reduce_p, values, weighted, **{**parameters, "option": _SUM})[1]


def _share_of_extreme(value: Any, result: Any, parameters: dict[str, int]) -> Any:
    holds = (value == result).astype(value.dtype)
    (holders,) = all_reduce_p.bind(holds, **{**parameters, "option": _SUM})
    return holds / holders


def _product_of_others(value: Any, _: Any, parameters: dict[str, int]) -> Any:
    (rows,) = all_gather_p.bind(value, **{**parameters, "option": 0})
    return jnp.prod(rows.at[executor(parameters["group"]).group.rank].set(1), axis=0)


def _jvp_reduce_scatter(values: Sequence[Any], tangents: Sequence[Any], **parameters: int) -> Any:
    if parameters["option"] not in (_AVG, _SUM):
        name = _NAMES[parameters["option"]]
        raise NotImplementedError(f"reduce_scatter with op={name!r} has no derivative; that of all_reduce has one")
    return _jvp(reduce_scatter_p, values, tangents, **parameters)


def _transpose(transposed: Callable[..., Any]) -> Callable[..., list[Any]]:
    """Make a rule of a function of the cotangents that are not zero, and the parameters."""

    def rule(cotangents: Sequence[Any], *arguments: Any, **parameters: int) -> list[Any]:
        given = [i for i, cotangent in enumerate(cotangents) if not isinstance(cotangent, ad.Zero)]
        outcome: list[Any] = [ad.Zero(each.aval.to_tangent_aval()) for each in arguments]
        if given:
            for i, result in zip(given, transposed(*(cotangents[i] for i in given), **parameters), strict=True):
                outcome[i] = result
        return outcome

    return rule


def _scattered(cotangent: Any, **parameters: int) -> Any:
    return reduce_scatter_p.bind(cotangent, **{**parameters, "option": _SUM})


def _gathered(cotangent: Any, **parameters: int) -> Any:
    (rows,) = all_gather_p.bind(cotangent, **{**parameters, "option": 0})
    return [rows / parameters["size"] if parameters["option"] == _AVG else rows]


def _to_root(cotangent: Any, **parameters: int) -> Any:
    (total,) = all_reduce_p.bind(cotangent, **{**parameters, "option": _SUM})
    return [total if executor(parameters["group"]).group.rank == parameters["option"] else jnp.zeros_like(total)]


for _primitive, _rule, _transposed in (
    (all_reduce_p, _jvp_all_reduce, all_reduce_p.bind),
    (all_gather_p, partial(_jvp, all_gather_p), _scattered),
    (reduce_scatter_p, _jvp_reduce_scatter, _gathered),
    (broadcast_p, partial(_jvp, broadcast_p), _to_root),
    (all_to_all_p, partial(_jvp, all_to_all_p), all_to_all_p.bind),
):
    ad.primitive_jvps[_primitive] = _rule
    ad.primitive_transposes[_primitive] = _transpose(_transposed)


def _batch(primitive: Primitive, values: Sequence[Any], axes: Sequence[Any], **parameters: int) -> Any:
    """The rule of a collective that does not look at its arrays' dimensions."""
    return primitive.bind(*values, **parameters), axes


def _batch_all_gather(values: Sequence[Any], axes: Sequence[Any], **parameters: int) -> Any:
    return all_gather_p.bind(*values, **parameters), [axis + 1 for axis in axes]


def _batch_rows(
    primitive: Primitive, behind: int, values: Sequence[Any], axes: Sequence[Any], **parameters: int
) -> Any:
    """The rule of a collective of rows, which stay in front; the batch's axis comes out as `behind`."""
    moved = [jnp.moveaxis(value, axis, 1) for value, axis in zip(values, axes, strict=True)]
    return primitive.bind(*moved, **parameters), [behind for _ in moved]


for _primitive in (all_reduce_p, broadcast_p, barrier_p):
    batching.primitive_batchers[_primitive] = partial(_batch, _primitive)
batching.primitive_batchers[all_gather_p] = _batch_all_gather
batching.primitive_batchers[reduce_scatter_p] = partial(_batch_rows, reduce_scatter_p, 0)
batching.primitive_batchers[all_to_all_p] = partial(_batch_rows, all_to_all_p, 1)
