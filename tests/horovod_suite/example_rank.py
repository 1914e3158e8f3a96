"""A rank of an example: random images take the place of MNIST, which would have to be downloaded.

python example_rank.py EXAMPLE [ARGUMENT...]
"""

from __future__ import annotations

import runpy
import sys
from typing import Any

import keras
import numpy as np
import tensorflow as tf

Images = tuple[Any, Any]


def images(path: str = "mnist.npz") -> tuple[Images, Images]:
    """As many images as some steps need; a label is the row of its image that is bright."""
    values = np.random.default_rng(0)
    labels = values.integers(0, 10, 4096).astype("uint8")
    pixels = values.integers(0, 100, (len(labels), 28, 28)).astype("uint8")
    pixels[np.arange(len(labels)), 2 * labels + 4] = 255
    return (pixels[1024:], labels[1024:]), (pixels[:1024], labels[:1024])


for each in (tf.keras, keras):
    each.datasets.mnist.load_data = images
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
