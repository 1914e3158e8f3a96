"""The identity of a variable, be it TensorFlow's own or Keras 3's, which holds one of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import tensorflow as tf


def key(variable: Any) -> int:
    """Return a number that a variable shares with no other, whether it comes as Keras' or as TensorFlow's."""
    value = getattr(variable, "value", variable)
    return id(value if isinstance(value, tf.Variable) else variable)


def names_of(variables: Iterable[Any]) -> list[str]:
    """Return a name for each variable, none of them twice: its path in the model, or its number if it has no name."""
    seen: Counter[str] = Counter()
    names = []
    for number, variable in enumerate(variables):
        name = _name(variable) or f"grad_{number}"
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}_{seen[name]}")
    return names


def _name(variable: Any) -> str:
    try:
        return str(getattr(variable, "path", None) or variable.name).partition(":")[0]
    except AttributeError:  # a tensor that is not in a graph
        return ""
