"""The codecs that the cost model chooses for groups between machines, by the speed of each group's slowest rank."""

from __future__ import annotations

import logging
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from paceline import _engine
from paceline.settings.names import NONE
from paceline.topology import Topology

log = logging.getLogger("paceline.plan")

Encoding = tuple[int, int]
"""The engine's number of a codec, and the bytes of a buffer from which on sums and means have it."""


NO_ENCODING: Encoding = (_engine.CODECS[NONE], 0)


class Encodings:
    """The encodings of a process's groups. algorithm: as of `paceline.plan.choose.choose`. Not thread-safe."""

    def __init__(self, algorithm: str | None) -> None:
        self._algorithm = algorithm
        self._own: list[float] = []  # seconds in which this rank encodes and decodes a byte: to be rounded, and exact
        self._slowest: dict[int, tuple[float, float]] = {}  # by channel: the same of the slowest rank
        self._chosen: dict[int, Encoding] = {}
        self._exact: dict[int, Encoding] = {}

    def of(self, channel: int) -> Encoding | None:
        """Return the encoding for sums and means of the group with this channel; None before it is chosen."""
        return self._chosen.get(channel)

    def exact(self, channel: int) -> Encoding:
        """Return the encoding for values of that group that must arrive bit for bit; `NO_ENCODING` at first."""
        return self._exact.get(channel, NO_ENCODING)

    def choose(self, native: _engine.Group, topology: Topology, asked: str) -> Encoding:
        """Choose for a group on `topology`. Collective for the first time in a group, where all ranks come to the same.

        asked: what asked for it, if the first rank is to say in a sentence what was chosen and why; else "".
        """
        from paceline.plan import auto  # few jobs need it

        codec, exact = auto.CODEC, auto.EXACT
        if not auto.on_one_machine(topology):
            rounded, bit_for_bit = self._seconds(native, codec.name, exact.name)
            codec, exact = replace(codec, seconds=rounded), replace(exact, seconds=bit_for_bit)
        found, of_parameters = auto.encoding(topology, self._algorithm, codec), auto.exact(topology, exact)
        if asked and native.rank == 0:
            log.warning("%s: %s", asked, found.reason)
            log.info("%s: %s", asked, of_parameters.reason)
        self._exact[native.channel] = _engine.CODECS[of_parameters.codec], of_parameters.least
        self._chosen[native.channel] = chosen = _engine.CODECS[found.codec], found.least
        return chosen

    def forget(self, channel: int) -> None:
        """Forget the group with this channel."""
        for known in (self._slowest, self._chosen, self._exact):
            known.pop(channel, None)

    def clear(self) -> None:
        """Forget all groups."""
        for known in (self._slowest, self._chosen, self._exact):
            known.clear()

    def _seconds(self, native: _engine.Group, *codecs: str) -> tuple[float, float]:
        if native.channel not in self._slowest:
            if not self._own:
                from paceline.adapt.measure.coding import speed

                self._own = [speed(codec).seconds for codec in codecs]
            words = np.array(self._own)
            everywhere("MAX", native, words)
            self._slowest[native.channel] = float(words[0]), float(words[1])
        return self._slowest[native.channel]


def everywhere(op: str, native: _engine.Group, words: NDArray[np.float64]) -> None:
    """Combine a few numbers over all ranks, in place. op: a name in the engine's OPS."""
    data, dtype = words.ctypes.data, _engine.DTYPES["float64"]
    call = _engine.CollectiveCall("all_reduce", target=data, count=words.size, dtype=dtype, op=_engine.OPS[op])
    native.start(call, _engine.BLOCKING)
