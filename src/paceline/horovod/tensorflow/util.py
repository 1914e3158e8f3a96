"""Horovod's `horovod.tensorflow.util`, of which scripts import one function."""

from __future__ import annotations

import tensorflow as tf


def _executing_eagerly() -> bool:
    """Return whether TensorFlow executes eagerly here."""
    return bool(tf.executing_eagerly())
