"""The speed at which one core of this machine encodes and decodes."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns
from typing import NamedTuple

import numpy as np

from paceline import _engine
from paceline.group.codecs import encoded_bound

_ELEMENTS = 1 << 22
"""Elements of float32 that are encoded, more than the caches of most cores hold."""
_PERIOD = 1 << 16
"""Elements that are drawn, and then repeated: to draw all would take longer than to encode them."""
_DEVIATION = 0.02
"""The standard deviation of the numbers, as of parameters."""
_TRIES = 4
"""Times that they are encoded, of which the quickest counts: nothing else was in its way."""


class Speed(NamedTuple):
    """Bytes of float32 per second of CPU time."""

    encode: float
    decode: float

    @property
    def seconds(self) -> float:
        """Seconds in which one core encodes a byte of float32 and decodes it, as of `paceline.plan.codecs.Codec`."""
        return 1 / self.encode + 1 / self.decode


def speed(codec: str) -> Speed:
    """Time this codec on numbers like gradients, which takes some tens of milliseconds."""
    number, dtype = _engine.CODECS[codec], _engine.DTYPES["float32"]
    drawn = np.random.default_rng(0).standard_normal(_PERIOD, np.float32) * np.float32(_DEVIATION)
    values = np.resize(drawn, _ELEMENTS)
    encoded, decoded = np.zeros(encoded_bound(codec, _ELEMENTS), np.uint8), np.zeros_like(values)
    given, between, got = values.ctypes.data, encoded.ctypes.data, decoded.ctypes.data
    size = _engine.encode(number, dtype, given, _ELEMENTS, between)
    encoding = _quickest(lambda: _engine.encode(number, dtype, given, _ELEMENTS, between))
    decoding = _quickest(lambda: _engine.decode(number, dtype, between, size, got, _ELEMENTS))
    return Speed(*(values.nbytes * 1e9 / max(1, nanoseconds) for nanoseconds in (encoding, decoding)))


def _quickest(call: Callable[[], object]) -> int:
    """Return the fewest nanoseconds of CPU time that a call took."""
    spent = []
    for _ in range(_TRIES):
        begin = thread_time_ns()
        call()
        spent.append(thread_time_ns() - begin)
    return min(spent)
