"""Lets all ranks skip a step whose scaled loss has overflowed on one of them, in Keras 3."""

from __future__ import annotations

from functools import cache, wraps
from typing import Any

import tensorflow as tf

from paceline.horovod import ops
from paceline.horovod.tensorflow.reduction import _allreduce


@cache
def agree_on_finite_gradients() -> None:
    """Make `keras.optimizers.LossScaleOptimizer` ask all ranks, where its inner optimizer combines gradients.

    Keras puts one around the optimizer of a model with `mixed_float16`. It looks at this rank's gradients, and calls
    the inner optimizer, whose step is collective, only if they are finite.
    """
    from keras.optimizers import LossScaleOptimizer

    own = LossScaleOptimizer.check_finite

    @wraps(own)
    def check_finite(self: Any, grads: Any) -> Any:
        finite = own(self, grads)
        gradients = getattr(self.inner_optimizer, "_gradients", None)
        if gradients is None:
            return finite
        everywhere = _allreduce(tf.cast(finite, tf.int32), op=ops.Min, process_set=gradients.process_set)
        return tf.cast(everywhere, tf.bool)

    LossScaleOptimizer.check_finite = check_finite
