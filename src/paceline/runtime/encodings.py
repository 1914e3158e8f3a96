"""The codecs that the cost model chooses for groups between machines, by the speed of each group's slowest rank."""

from __future__ import annotations

import logging

import numpy as np

from paceline import _engine
from paceline.topology import Topology

log = logging.getLogger("paceline.plan")

Encoding = tuple[int, int]
"""The engine's number of a codec, and the bytes of a buffer from which on sums and means have it."""


class Encodings:
    """What is chosen for each group of a process. algorithm: as of `paceline.plan.choose.choose`. Not thread-safe."""

    def __init__(self, algorithm: str | None) -> None:
        self._algorithm = algorithm
        self._own = 0.0  # seconds in which this rank encodes and decodes a byte; 0 before they are measured
        self._slowest: dict[int, float] = {}  # by channel: the same of the slowest rank
        self._chosen: dict[int, Encoding] = {}

    def of(self, channel: int) -> Encoding | None:
        """What was chosen for the group with this channel; None before anything was."""
        return self._chosen.get(channel)

    def choose(self, native: _engine.Group, topology: Topology, asked: str) -> Encoding:
        """Choose for a group on `topology`. Collective for the first time in a group, where all ranks come to the same.

        asked: what asked for it, if the first rank is to say in a sentence what was chosen and why; else "".
        """
        from dataclasses import replace

        from paceline.plan import auto  # few jobs need it

        codec = auto.CODEC
        if not auto.on_one_machine(topology):
            codec = replace(codec, seconds=self._seconds(native))
        found = auto.encoding(topology, self._algorithm, codec)
        if asked and native.rank == 0:
            log.warning("%s: %s", asked, found.reason)
        self._chosen[native.channel] = chosen = _engine.CODECS[found.codec], found.least
        return chosen

    def forget(self, channel: int) -> None:
        """Forget the group with this channel."""
        self._slowest.pop(channel, None)
        self._chosen.pop(channel, None)

    def clear(self) -> None:
        """Forget all groups."""
        self._slowest.clear()
        self._chosen.clear()

    def _seconds(self, native: _engine.Group) -> float:
        if native.channel not in self._slowest:
            if not self._own:
                from paceline.measure.coding import speed
                from paceline.plan.auto import CODEC

                self._own = speed(CODEC.name).seconds
            word = np.array([self._own])
            dtype, most = _engine.DTYPES["float64"], _engine.OPS["MAX"]
            native.all_reduce(word.ctypes.data, 1, dtype, most, 1.0, _engine.BLOCKING)
            self._slowest[native.channel] = float(word[0])
        return self._slowest[native.channel]
