"""Horovod's reductions, by the numbers that Horovod gives them."""

from __future__ import annotations

import warnings

Average, Sum, Adasum, Min, Max, Product = range(6)

NAMES = {Average: "avg", Sum: "sum", Min: "min", Max: "max", Product: "product"}
"""The reductions that a coordinator implements, by its names for them. Adasum is composed of other collectives."""


def chosen(op: int | None, average: bool | None) -> int:
    """Return the reduction that `op`, or `average` in older scripts, asks for; Average if neither is given.

    Raises ValueError if both are given, or if there is no such reduction.
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
