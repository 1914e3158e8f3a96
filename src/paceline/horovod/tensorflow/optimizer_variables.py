"""The variables of an optimizer, whichever Keras it is of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


def optimizer_variables(optimizer: Any) -> list[Any]:
    """Return the variables of an optimizer: of Keras 2 they are a method, of Keras 3 a property."""
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def create_optimizer_variables(optimizer: Any, variables: Sequence[Any]) -> None:
    """Create the variables that an optimizer otherwise creates in its first step, if it has not done so.

    variables: what the optimizer changes.
    """
    known_by = "built" if hasattr(optimizer, "apply") else "_built"  # of Keras 3, or 2
    with tf.init_scope():
        if hasattr(optimizer, "_create_all_weights"):  # of keras.optimizers.legacy; it creates each variable once
            optimizer._create_all_weights(variables)
        elif hasattr(optimizer, "build") and not getattr(optimizer, known_by, False):
            optimizer.build(variables)
