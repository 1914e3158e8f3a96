"""The way back that autograd would take from results to the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor


def history(results: Iterable[Tensor], names: Mapping[int, str]) -> list[object]:
    """Return the functions on the way, each with those behind it, in an order that only depends on how they depend.

    names: of the parameters, by `id`. It is equal for runs whose gradients are computed alike.
    """
    begins = [(result.grad_fn, names.get(id(result), "") if result.requires_grad else "") for result in results]
    numbers = {
        function: number
        for number, function in enumerate(functions_behind((function for function, _ in begins), set()))
    }
    found: list[object] = [(numbers.get(function), name) for function, name in begins]
    for function in numbers:
        leaf = getattr(function, "variable", None)
        behind = tuple((numbers.get(other), place) for other, place in function.next_functions)
        found.append((function.name(), names.get(id(leaf), "") if leaf is not None else "", behind))
    return found


def functions_behind(begins: Iterable[Any], known: set[Any]) -> list[Any]:
    """Return these functions and those to which they pass gradients on, each before those behind it.

    known: functions that are left out with all behind them, to which what is found is added.
    """
    found: list[Any] = []
    for begin in begins:
        ahead = [begin]
        while ahead:
            function = ahead.pop()
            if function is not None and function not in known:
                known.add(function)
                found.append(function)
                ahead += [other for other, _ in reversed(function.next_functions)]
    return found
