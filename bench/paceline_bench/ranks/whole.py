"""The result of a call that consists of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .pattern import Array


class Whole:
    """Tensors of torch or TensorFlow as one flat array, which is only made when somebody asks for it."""

    def __init__(self, tensors: Sequence[Any]) -> None:
        self._tensors = tensors

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate([tensor.numpy().ravel() for tensor in self._tensors]).astype(dtype or np.float32)
