"""The names of calls: in a graph an op's own, elsewhere what the caller gives, or a count."""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf


def attributes(kind: str, name: str | None, tensors: list[Any], ignore_name_scope: bool = False) -> dict[str, Any]:
    """Return the attributes by which an op's requests are named, and the name that the op itself gets.

    kind: the beginning of an unnamed op's name in a graph, as in Horovod; the rest comes from the names of its tensors.
    """
    eager = tf.executing_eagerly()
    if not eager:
        ends = tensors[:1] + tensors[1:][-1:]
        name = _normal("_".join([kind, *(end.name for end in ends)]) if name is None else name)
    return {
        "names": [name] if eager and name is not None else [],
        "in_graph": not eager,
        "ignore_name_scope": ignore_name_scope,
        "name": None if eager else name,
    }


def _normal(name: str) -> str:
    """Return a name that TensorFlow accepts."""
    return re.sub("[^a-zA-Z0-9_]", "_", name)
