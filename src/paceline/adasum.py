"""Adasum: gradients combined so that what they agree on counts once and what they disagree on adds up.

S. Maleki et al., "Scaling Distributed Training with Adaptive Summation" (2020): for two gradients
Adasum(a, b) = (1 - a·b / 2‖a‖²) a + (1 - a·b / 2‖b‖²) b, so orthogonal ones are added, equal ones averaged; for more, a
binary tree over the ranks in their order.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NEGLIGIBLE = math.sqrt(sys.float_info.min)
"""A squared norm below this has too few bits to divide by; such a gradient is added as it is."""


def adasum(gradients: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Combine at least one gradient, all of one shape and floating dtype, into one of the same.

    Dot products and norms are computed in float64, the combination in float32 for float16, else in the dtype itself.
    The same gradients in the same order give the same bits everywhere.
    """
    wide = [gradient.astype(np.float32) if gradient.itemsize < 4 else gradient for gradient in gradients]
    return _tree(wide).astype(gradients[0].dtype)


def _tree(gradients: Sequence[NDArray[Any]]) -> NDArray[Any]:
    if len(gradients) == 1:
        return gradients[0]
    half = 1 << (
        (len(gradients) - 1).bit_length() - 1
    )  # the largest power of two below, as pairs of neighbours make it
    return _pair(_tree(gradients[:half]), _tree(gradients[half:]))


def _pair(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    dot = _dot(a, b)
    pair: NDArray[Any] = _share(dot, _dot(a, a), a.dtype) * a + _share(dot, _dot(b, b), b.dtype) * b
    return pair


def _share(dot: float, squared_norm: float, dtype: Any) -> Any:
    return dtype.type(1.0 - dot / (2.0 * squared_norm) if squared_norm >= _NEGLIGIBLE else 1.0)


def _dot(a: NDArray[Any], b: NDArray[Any]) -> float:
    return float(np.dot(a.ravel().astype(np.float64), b.ravel().astype(np.float64)))
