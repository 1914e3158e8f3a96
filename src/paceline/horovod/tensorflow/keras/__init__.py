"""Horovod's tf.keras API over Paceline: `import paceline.horovod.tensorflow.keras as hvd`.

See docs/frameworks/tensorflow.md.
"""

from __future__ import annotations

import tensorflow as tf

from paceline.horovod.tensorflow import keras_face
from paceline.horovod.tensorflow.keras import callbacks, elastic
from paceline.horovod.tensorflow.keras_face import *  # noqa: F403
from paceline.horovod.tensorflow.keras_functions import load_model_of

__all__ = ["callbacks", "elastic", "load_model"]
__all__ += keras_face.__all__

load_model = load_model_of(tf.keras)
