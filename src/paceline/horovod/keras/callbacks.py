"""Callbacks for Keras; `paceline.horovod.tensorflow.keras_callbacks` describes them."""

from __future__ import annotations

import keras

from paceline.horovod.tensorflow import keras_callbacks as parts

_base = keras.callbacks.Callback

BroadcastGlobalVariablesCallback = parts.bound(parts.BroadcastGlobalVariablesCallback, _base, __name__)
MetricAverageCallback = parts.bound(parts.MetricAverageCallback, _base, __name__)
LearningRateScheduleCallback = parts.bound(parts.LearningRateScheduleCallback, _base, __name__)
LearningRateWarmupCallback = parts.bound(parts.LearningRateWarmupCallback, _base, __name__)
BestModelCheckpoint = parts.bound(parts.BestModelCheckpoint, keras.callbacks.ModelCheckpoint, __name__)

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]
