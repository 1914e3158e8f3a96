"""Batch normalisation over the batches of all ranks, for Keras 2 and 3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from paceline.horovod import job, ops
from paceline.horovod.tensorflow.allreduce import _allreduce


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):  # type: ignore[misc]
    """Like `tf.keras.layers.BatchNormalization`, with the mean and variance of all ranks' batches in training.

    Batches may differ in size. Raises ValueError for fused=True, as Horovod does.
    """

    def __init__(self, fused: bool | None = False, **kwargs: Any) -> None:
        if fused in (True, None):
            raise ValueError("SyncBatchNormalization does not support fused=True.")
        if not kwargs.get("name"):
            kwargs["name"] = "sync_batch_normalization"
        super().__init__(**kwargs)
        self.fused = False  # of Keras 2, which would otherwise compute the moments elsewhere

    def _moments(self, inputs: Any, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
        """Return the mean and variance of all ranks' inputs, weighted by how many each rank has. Collective."""
        mean, variance = super()._moments(inputs, *arguments, **keywords)
        if job.current().size == 1 and job.worker() is None:
            return mean, variance
        count = tf.cast(tf.size(inputs) / tf.size(mean), mean.dtype)
        sums = tf.stack([mean, variance + tf.square(mean), tf.ones_like(mean)]) * count
        means, squares, counts = tf.unstack(_allreduce(sums, op=ops.Sum))
        mean = means / counts
        return mean, squares / counts - tf.square(mean)
