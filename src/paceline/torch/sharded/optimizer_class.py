"""The class of an optimizer that was given with some of its options."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import cast

from torch.optim import Optimizer


def class_and_options(
    given: type[Optimizer] | partial[Optimizer], options: Mapping[str, object]
) -> tuple[type[Optimizer], dict[str, object]]:
    """Return the class behind any `functools.partial`, and its options with those of `options` over them.

    Raises TypeError for an optimizer, for what makes none, and for arguments of a partial that have no name.
    """
    found = dict(options)
    while isinstance(given, partial):
        if given.args:
            raise TypeError(f"a partial of an optimizer names its options: found {given.args!r:.80} without a name")
        found = {**given.keywords, **found}
        given = cast("type[Optimizer]", given.func)
    if isinstance(given, Optimizer):
        raise TypeError(
            f"ShardedOptimizer takes the class of an optimizer and its options, as in ShardedOptimizer(parameters, "
            f"{type(given).__name__}, lr=0.1), not one that was made already"
        )
    if not callable(given):
        raise TypeError(f"ShardedOptimizer takes the class of an optimizer, not {given!r:.80}")
    return given, found
