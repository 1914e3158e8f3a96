"""Carries out collectives on the memory that XLA hands to the handler."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline import _engine
from paceline.jax.fusion import Buckets
from paceline.jax.likeness import Likeness, option_of
from paceline.jax.memory import Memory

if TYPE_CHECKING:
    from paceline.group.group import Group

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "barrier")
"""Their numbers in compiled programs are their places here."""


class Executor:
    """Carries out the collectives of `group`, one after the other, and returns once each is over."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self._native = group.native
        self._buckets = Buckets(_most(group))
        self._likeness = Likeness(group)
        self._turn = threading.Lock()
        self._calls = tuple(getattr(self, f"_{name}") for name in COLLECTIVES)

    def run(self, collective: int, option: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        """Carry out a collective. option: the number of the reduction, or the root, as `marked` gives it.

        Raises what `Group` raises.
        """
        with self._turn:
            self._calls[collective](option_of(option), sources, targets)
            self._likeness.compare(collective, option)

    def _all_reduce(self, op: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        for source, target, count, dtype in self._buckets.filled(sources, targets):
            self._native.all_reduce(source, target, count, dtype, op, 1.0, _engine.BLOCKING)

    def _all_gather(self, _: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        self._native.all_gather(source.address, target.address, source.count, source.dtype, _engine.BLOCKING)

    def _reduce_scatter(self, op: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        self._native.reduce_scatter(
            source.address, target.address, target.count, source.dtype, op, 1.0, _engine.BLOCKING
        )

    def _broadcast(self, root: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        _copy(source, target)
        self._native.broadcast(target.address, target.count, target.dtype, root, _engine.BLOCKING)

    def _all_to_all(self, _: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        sends, receives = (self._blocks(each) for each in (source, target))
        self._native.exchange("all_to_all", sends, receives, source.dtype, -1, _engine.BLOCKING)

    def _barrier(self, *_: object) -> None:
        self._native.barrier(_engine.BLOCKING)

    def _blocks(self, memory: Memory) -> list[tuple[int, int]]:
        count = memory.count // self.group.size
        width = count * _engine.SIZES[memory.dtype]
        return [(memory.address + rank * width, count) for rank in range(self.group.size)]


def _most(group: Group) -> int:
    from paceline.coordinate.host import host_of
    from paceline.coordinate.options import Options  # which takes a while to import

    return Options.wished(host_of(group).settings).fusion_bytes


def _copy(source: Memory, target: Memory) -> None:
    """Copy unless XLA has given the source's memory to the result."""
    if source.address != target.address and target.count:
        ctypes.memmove(target.address, source.address, target.bytes)
