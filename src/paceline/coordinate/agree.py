"""The agreement of ranks before they have a coordinator: on its channels, and on having the same options."""

from __future__ import annotations

import secrets

import numpy as np

from paceline import _engine
from paceline.coordinate.options import Options
from paceline.group.buffers import AnyArray

_CHANNEL_BITS = 43
_CHANNELS_BITS = 20
"""A coordinator uses a range of channels: for the policy, for data, and each time that a policy takes batches back."""
_LONGEST_OPTIONS = 256
"""Bytes of the options, as text, that are compared."""


def agree(native: _engine.Group, options: Options) -> int:
    """A channel that all ranks use, rank 0's. Raises ValueError if their options differ."""
    text = repr(options)[:_LONGEST_OPTIONS]
    mine = np.zeros(8 + _LONGEST_OPTIONS, np.uint8)
    mine[:8] = np.array([secrets.randbits(_CHANNEL_BITS) << _CHANNELS_BITS], np.int64).view(np.uint8)
    mine[8 : 8 + len(text)] = np.frombuffer(text.encode(), np.uint8)
    everyone = np.empty((native.size, mine.size), np.uint8)
    all_gather(native, mine, everyone)
    for rank in range(1, native.size):
        if not np.array_equal(everyone[0, 8:], everyone[rank, 8:]):
            first, other = (bytes(everyone[row, 8:]).rstrip(b"\0").decode() for row in (0, rank))
            raise ValueError(f"ranks disagree on a coordinator: rank 0 has {first}, rank {rank} has {other}")
    return int(everyone[0, :8].view(np.int64)[0])


def all_gather(native: _engine.Group, mine: AnyArray, everyone: AnyArray) -> None:
    """Put the ranks' arrays `mine` one after the other into `everyone`."""
    call = _engine.CollectiveCall(
        "all_gather",
        source=mine.ctypes.data,
        target=everyone.ctypes.data,
        count=mine.size,
        dtype=_engine.DTYPES[mine.dtype.name],
    )
    native.start(call, _engine.BLOCKING)
