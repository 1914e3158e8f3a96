"""What each codec does, slowly and without tricks: the decoded values, worked out one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK, TILE_WIDTH, SCALE_GROUP = 4096, 16, 128
"""Elements of a block, words of a tile of `three_in_one`, and elements that share a scale."""
Floats = NDArray[np.float32]
HELD = np.array([2.0**exponent * (1 + part / 32) for exponent in range(16) for part in range(32)])
"""The magnitudes that a word of `three_in_one` can hold, in units of the smallest, which stands for zero."""
HELD[0] = 0


def decoded(codec: str, values: Floats) -> Floats:
    """What decoding gives of encoded `values`."""
    blocks = [values[first : first + BLOCK] for first in range(0, values.size, BLOCK)]
    return np.concatenate([_OF_BLOCK[codec](block) for block in blocks] or [values])


def _bf16(block: Floats) -> Floats:
    return np.array([_nearest_bf16(value) for value in block], np.float32)


def _nearest_bf16(value: np.float32) -> np.float32:
    if not np.isfinite(value):
        return value
    bits = int(np.abs(value).view(np.uint32)) & 0xFFFF0000
    lower, upper = (float(np.uint32(each).view(np.float32)) for each in (bits, bits + 0x10000))
    upper = min(upper, 2.0**128)
    magnitude = abs(float(value))
    even = bits % 0x20000 == 0
    down = magnitude - lower < upper - magnitude or (magnitude - lower == upper - magnitude and even)
    return np.float32(math.copysign(lower if down else upper if upper < 2.0**128 else math.inf, value))


def _fp16(block: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return block.astype(np.float16).astype(np.float32)


def _three_in_one(block: Floats) -> Floats:
    words = []
    """The places of each word's values."""
    for first in range(0, block.size, 3 * TILE_WIDTH):
        tile = range(first, min(first + 3 * TILE_WIDTH, block.size))
        width = math.ceil(len(tile) / 3)
        words += [tile[column::width] for column in range(width)]
    escaped = [places for places in words if not _fits(block[places])]
    if len(words) + 3 * len(escaped) > block.size:
        return block  # it would not become smaller
    result = block.copy()
    for places in words:
        if places not in escaped:
            result[places] = _word(block[places])
    return result


def _fits(values: Floats) -> bool:
    return bool(np.isfinite(values).all()) and max(_six_bits(abs(float(value))) for value in values) < 2


def _word(values: Floats) -> Floats:
    most = max(_six_bits(abs(float(value))) for value in values)
    lowest = 2.0**-15 if most >= 2.0**-15 else 2.0**-31
    return np.array([math.copysign(_nearest(abs(float(value)), HELD * lowest), value) for value in values], np.float32)


def _six_bits(magnitude: float) -> float:
    """Rounded to six significant bits."""
    mantissa, exponent = math.frexp(magnitude)
    return math.ldexp(round(mantissa * 64), exponent - 6)


def _nearest(magnitude: float, held: NDArray[np.float64]) -> float:
    distances = np.abs(held - magnitude)
    nearest = np.flatnonzero(distances == distances.min())
    return float(held[min(nearest, key=lambda place: place % 2)])


def _integers(block: Floats, most: int) -> Floats:
    groups = [block[first : first + SCALE_GROUP] for first in range(0, block.size, SCALE_GROUP)]
    return np.concatenate([_group(group, most) for group in groups] or [block])


def _group(group: Floats, most: int) -> Floats:
    if not np.isfinite(group).all():
        return np.full(group.size, np.nan, np.float32)
    largest = np.abs(group).max()
    if float(largest) < 2.0**-119:
        return np.zeros(group.size, np.float32)
    mantissa, exponent = math.frexp(float(largest / np.float32(most)))
    scale = math.ldexp(math.ceil(mantissa * 2**16), exponent - 16)
    if scale * most > float(np.finfo(np.float32).max):
        scale = math.ldexp(math.ceil(mantissa * 2**16) - 1, exponent - 16)
    multiples = np.rint(group * (np.float32(1) / np.float32(scale)))
    return (multiples.astype(np.float64) * scale).astype(np.float32)


_OF_BLOCK: dict[str, Any] = {
    "none": lambda block: block,
    "bf16": _bf16,
    "fp16": _fp16,
    "three_in_one": _three_in_one,
    "int8": lambda block: _integers(block, 127),
    "int4": lambda block: _integers(block, 7),
    "lossless": lambda block: block,
}
