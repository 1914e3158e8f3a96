"""`hvd.elastic` for Keras; `paceline.horovod.tensorflow.keras_callbacks` describes the callbacks."""

from __future__ import annotations

import keras

from paceline.horovod.tensorflow import keras_callbacks as parts
from paceline.horovod.tensorflow.elastic import TensorFlowKerasState as KerasState
from paceline.horovod.tensorflow.elastic import run

_base = keras.callbacks.Callback

CommitStateCallback = parts.bound(parts.CommitStateCallback, _base, __name__)
UpdateBatchStateCallback = parts.bound(parts.UpdateBatchStateCallback, _base, __name__)
UpdateEpochStateCallback = parts.bound(parts.UpdateEpochStateCallback, _base, __name__)

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]
