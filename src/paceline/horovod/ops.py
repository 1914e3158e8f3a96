"""Horovod's reductions, by the numbers that it gives them."""

from __future__ import annotations

import warnings

Average, Sum, Adasum, Min, Max, Product = range(6)

NAMES = {Average: "avg", Sum: "sum", Min: "min", Max: "max", Product: "product"}
"""Those that a coordinator knows, by its words. Adasum is made of an all-gather."""


def chosen(op: int | None, average: bool | None) -> int:
    """The reduction that `op`, or in older scripts `average`, asks for; Average if neither does.

    Raises ValueError if both do, or if there is no such reduction.
    """
    if op is not None:
        if average is not None:
            raise ValueError("The op parameter supersedes average. Please provide only one of them.")
        if op != Adasum and op not in NAMES:
            raise ValueError(f"op={op!r} should be one of hvd.Average, Sum, Adasum, Min, Max, Product")
        return op
    if average is None:
        return Average
    warnings.warn("Parameter `average` has been replaced with `op`", DeprecationWarning, stacklevel=3)
    return Average if average else Sum
