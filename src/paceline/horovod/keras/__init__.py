"""Horovod's Keras API over Paceline: `import paceline.horovod.keras as hvd`, for Keras 3 with the TensorFlow backend.

See docs/frameworks/tensorflow.md.
"""

from __future__ import annotations

from paceline.horovod.tensorflow.compat import require_tensorflow

require_tensorflow()

import keras

from paceline.horovod.keras import callbacks, elastic
from paceline.horovod.tensorflow import keras_face
from paceline.horovod.tensorflow.keras_face import *  # noqa: F403
from paceline.horovod.tensorflow.keras_functions import load_model_of

__all__ = ["callbacks", "elastic", "load_model"]
__all__ += keras_face.__all__

load_model = load_model_of(keras)
