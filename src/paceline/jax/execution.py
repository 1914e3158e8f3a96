"""Carries out collectives on the memory that XLA hands to the handler."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from paceline import _engine
from paceline._engine import CollectiveCall
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
            self._run(CollectiveCall("all_reduce", source=source, target=target, count=count, dtype=dtype, op=op))

    def _all_gather(self, _: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        count, dtype = source.count, source.dtype
        self._run(CollectiveCall("all_gather", source.address, target.address, count, dtype))

    def _reduce_scatter(self, op: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        self._run(CollectiveCall("reduce_scatter", source.address, target.address, target.count, source.dtype, op))

    def _broadcast(self, root: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        _copy(source, target)
        self._run(CollectiveCall("broadcast", target=target.address, count=target.count, dtype=target.dtype, root=root))

    def _all_to_all(self, _: int, sources: Sequence[Memory], targets: Sequence[Memory]) -> None:
        (source,), (target,) = sources, targets
        sends, receives = (self._blocks(each) for each in (source, target))
        self._run(CollectiveCall("all_to_all", dtype=source.dtype, sends=sends, receives=receives))

    def _barrier(self, *_: object) -> None:
        self._run(CollectiveCall("barrier"))

    def _run(self, call: CollectiveCall) -> None:
        self._native.start(call, _engine.BLOCKING)

    def _blocks(self, memory: Memory) -> list[tuple[int, int]]:
        count = memory.count // self.group.size
        width = count * _engine.SIZES[memory.dtype]
        return [(memory.address + rank * width, count) for rank in range(self.group.size)]


def _most(group: Group) -> int:
    from paceline.coordinate.host import host_of
    from paceline.coordinate.options import Options  # which takes a while to import

    return Options.from_settings(host_of(group).settings).fusion_bytes


def _copy(source: Memory, target: Memory) -> None:
    """Copy unless XLA has given the source's memory to the result."""
    if source.address != target.address and target.count:
        ctypes.memmove(target.address, source.address, target.bytes)
