"""The collectives as JAX's primitives: their shapes, and how they become calls of the handler in a compiled program.

Parameters of each: `group`, the channel of the group; `size`, its number of ranks; `option`, the engine's number of the
reduction, or the root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
from jax.core import ShapedArray
from jax.extend.core import Primitive
from jax.interpreters import mlir

from paceline.jax.effect import EFFECT
from paceline.jax.execution import COLLECTIVES
from paceline.jax.library import TARGET
from paceline.jax.likeness import marked

Shape = tuple[int, ...]


def _primitive(name: str, shape: Callable[[Shape, int], Shape], *, in_place: bool) -> Primitive:
    """Make a primitive. shape: of a result, from that of its argument and the number of ranks.

    in_place: each result has the shape of its argument, and XLA may give both the same memory.
    """
    primitive = Primitive(f"paceline_{name}")
    primitive.multiple_results = True

    def results(*arguments: Any, size: int, **_: int) -> tuple[list[ShapedArray], set[object]]:
        return [ShapedArray(shape(each.shape, size), each.dtype) for each in arguments], {EFFECT}

    primitive.def_effectful_abstract_eval(results)
    primitive.def_impl(lambda *arguments, **parameters: _compiled(primitive, **parameters)(*arguments))
    mlir.register_lowering(primitive, _refuse)
    mlir.register_lowering(primitive, partial(_lower, COLLECTIVES.index(name), in_place), platform="cpu")
    return primitive


def _lower(
    collective: int, in_place: bool, context: Any, *arguments: Any, group: int, option: int, size: int
) -> Sequence[Any]:
    token = context.tokens_in.get(EFFECT)
    numbers = {"collective": collective, "group": group, "option": marked(option, context.avals_in)}
    rule = jax.ffi.ffi_lowering(
        TARGET,
        backend_config={name: mlir.i64_attr(number) for name, number in numbers.items()},
        has_side_effect=True,
        operand_output_aliases={i: i for i in range(len(arguments))} if in_place else None,
        result_types=[*map(_type, context.avals_out), token.type],
    )
    with_token = context.replace(
        avals_in=[*context.avals_in, _LAID_OUT_AS_TOKEN], avals_out=[*context.avals_out, _LAID_OUT_AS_TOKEN]
    )
    results: Sequence[Any]
    *results, token = rule(with_token, *arguments, token)
    context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({EFFECT: token})))
    return results


_LAID_OUT_AS_TOKEN = ShapedArray((), bool)
"""A token has no dimensions either, and has a name in the public API of only some versions of JAX."""


def _type(value: ShapedArray) -> Any:
    return mlir.ir.RankedTensorType.get(value.shape, mlir.dtype_to_ir_type(value.dtype))


def _refuse(*_: object, **__: object) -> None:
    raise NotImplementedError("paceline.jax carries out collectives on CPUs: put the program on jax.devices('cpu')")


@lru_cache(maxsize=4096)
def _compiled(primitive: Primitive, **parameters: int) -> Callable[..., Any]:
    compiled: Callable[..., Any] = jax.jit(lambda *arguments: primitive.bind(*arguments, **parameters))
    return compiled


def _same(shape: Shape, _: int) -> Shape:
    return shape


all_reduce_p = _primitive("all_reduce", _same, in_place=True)
"""It takes any number of arrays, which few calls of the engine combine."""
all_gather_p = _primitive("all_gather", lambda shape, size: (size, *shape), in_place=False)
reduce_scatter_p = _primitive("reduce_scatter", lambda shape, size: shape[1:], in_place=False)
broadcast_p = _primitive("broadcast", _same, in_place=True)
all_to_all_p = _primitive("all_to_all", _same, in_place=False)
barrier_p = _primitive("barrier", _same, in_place=False)
"""It takes a scalar, which nobody looks at."""
