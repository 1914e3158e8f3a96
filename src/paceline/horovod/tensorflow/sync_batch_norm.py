"""Batch normalisation over the batches of all ranks, for Keras 2 and 3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from paceline.horovod import job, ops
from paceline.horovod.tensorflow.reduction import _allreduce


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """Like `tf.keras.layers.BatchNormalization`, with the mean and variance of all ranks' batches in training.

    Batches may differ in size, and be empty; what a mask leaves out does not count. Raises ValueError for fused=True,
    as Horovod does.
    """

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        if not kwargs.get("name"):
            kwargs["name"] = "sync_batch_normalization"
        super().__init__(**kwargs)
        self.fused = False  # of Keras 2, which would otherwise compute the moments elsewhere

    def _moments(self, inputs: Any, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        """Return the mean and variance of all ranks' inputs. Collective."""
        if job.current().size == 1 and job.worker() is None:
            moments: tuple[Any, Any] = super()._moments(inputs, *arguments, **keywords)
            return moments
        if len(arguments) > 1 or "keep_dims" in keywords:  # Keras 2
            return _of_all_ranks(inputs, *arguments, **keywords)
        return _of_all_ranks(inputs, self._reduction_axes, False, *arguments, **keywords)


def _of_all_ranks(inputs: Any, reduction_axes: Any, keep_dims: bool, mask: Any = None) -> tuple[Any, Any]:
    axes = list(reduction_axes)
    counted = None
    if mask is not None:
        counted = tf.cast(tf.broadcast_to(tf.expand_dims(mask, -1), tf.shape(inputs)), tf.bool)
        inputs = tf.where(counted, inputs, 0)
    own = tf.reduce_sum(inputs, axes, keepdims=True)
    if counted is None:
        count = tf.ones_like(own) * tf.cast(tf.reduce_prod(tf.gather(tf.shape(inputs), axes)), own.dtype)
    else:
        count = tf.reduce_sum(tf.cast(counted, own.dtype), axes, keepdims=True)
    total, counts = tf.unstack(_allreduce(tf.stack([own, count]), op=ops.Sum))
    mean = tf.math.divide_no_nan(total, counts)
    # Deviations from the mean of all: a difference of squares would lose all digits where the mean is large.
    deviation = inputs - mean if counted is None else tf.where(counted, inputs - mean, 0)
    squares = _allreduce(tf.reduce_sum(tf.square(deviation), axes, keepdims=True), op=ops.Sum)
    variance = tf.math.divide_no_nan(squares, counts)
    return (mean, variance) if keep_dims else (tf.squeeze(mean, axes), tf.squeeze(variance, axes))
