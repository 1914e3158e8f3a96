"""The start times of a rank's last steps, as it tells those who ask: nanoseconds of a clock of its own, ascending."""

from __future__ import annotations

import struct
from collections.abc import Sequence

MAX_BYTES = 8 * 4096
"""Bytes of the longest answer; a rank remembers some thousand steps."""


def encode(begins_ns: Sequence[int]) -> bytes:
    """Return the times as 8-byte integers in network order."""
    return struct.pack(f"!{len(begins_ns)}Q", *begins_ns)


def decode(data: bytes) -> list[int]:
    """Return the times that `encode` wrote. Raises ValueError if the data are something else, or too long."""
    if len(data) > MAX_BYTES or len(data) % 8:
        raise ValueError(f"not times of steps: {len(data)} bytes")
    found = list(struct.unpack(f"!{len(data) // 8}Q", data))
    if found != sorted(found):
        raise ValueError("not times of steps: they are not in order")
    return found
