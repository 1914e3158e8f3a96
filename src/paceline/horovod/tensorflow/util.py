"""Horovod's `horovod.tensorflow.util`, from which scripts import some helpers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

T = TypeVar("T")


def _executing_eagerly() -> bool:
    """Return whether TensorFlow executes eagerly here."""
    return bool(tf.executing_eagerly())


def _make_subgraph(f: Callable[..., Any]) -> Any:
    """Return `f` as a `tf.function`."""
    return tf.function(f)


def _cache(f: Callable[..., T]) -> Callable[..., T]:
    """Return a function that calls `f` once for the same arguments, eagerly and in graphs apart."""
    cache: dict[Any, T] = {}

    def cached(*arguments: Any) -> T:
        key = (arguments, _executing_eagerly())
        if key not in cache:
            cache[key] = f(*arguments)
        return cache[key]

    return cached


def vars_to_refs(vars: Any) -> Any:
    """Return the reference, which can be hashed, of a tf.Variable; for a list, nested or not, a tuple of them."""
    return tuple(map(vars_to_refs, vars)) if isinstance(vars, list) else vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """Return the variable of a reference; for a tuple, nested or not, a list of them."""
    return list(map(refs_to_vars, refs)) if isinstance(refs, tuple) else refs.deref()
