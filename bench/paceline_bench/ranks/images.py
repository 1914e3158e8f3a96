"""Images that are decoded as JPEG files are: entropy coding, dequantisation, an inverse transform of 8×8 blocks."""

from __future__ import annotations

import zlib

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_BLOCK = 8
_KINDS = 32
"""Different images; decoding costs the same for any of them."""


def _transform() -> NDArray[np.float32]:
    """The matrix of the discrete cosine transform of 8 numbers, float32[8, 8]."""
    row = np.arange(_BLOCK)[:, None]
    matrix = np.cos((2 * row.T + 1) * row * np.pi / (2 * _BLOCK)) * np.sqrt(2 / _BLOCK)
    matrix[0] /= np.sqrt(2)
    return np.asarray(matrix, np.float32)


class Images:
    """A dataset of `count` images: float32[3, pixels, pixels], normalised, flipped by chance; and a label.

    pixels: width and height, a multiple of 8.
    """

    def __init__(self, count: int, pixels: int, classes: int) -> None:
        self._count, self._pixels, self._classes = count, pixels, classes
        self._transform = _transform()
        row = np.arange(_BLOCK)
        self._steps = (4 + 3 * (row[:, None] + row)).astype(np.float32)  # a coarser step for higher frequencies
        chance = np.random.default_rng(1)
        self._files = [self._encoded(chance) for _ in range(min(count, _KINDS))]

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        blocks = self._pixels // _BLOCK
        coded = np.frombuffer(zlib.decompress(self._files[index % len(self._files)]), np.int16)
        coefficients = coded.reshape(3, blocks, blocks, _BLOCK, _BLOCK) * self._steps
        pixels = self._transform.T @ coefficients @ self._transform
        image = np.clip(pixels + 128, 0, 255).astype(np.uint8)  # what a decoder gives
        flat = image.transpose(0, 1, 3, 2, 4).reshape(3, self._pixels, self._pixels)
        if index % 2:
            flat = flat[:, :, ::-1]
        return torch.from_numpy((flat.astype(np.float32) - 118) / 58), index % self._classes

    def _encoded(self, chance: np.random.Generator) -> bytes:
        blocks = self._pixels // _BLOCK
        smooth = chance.normal(0, 60, (3, blocks, blocks, _BLOCK, _BLOCK)).astype(np.float32) / (self._steps / 4)
        return zlib.compress(np.round(smooth / self._steps).astype(np.int16).tobytes())
