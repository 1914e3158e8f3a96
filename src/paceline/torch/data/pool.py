"""The slots that hold a batch which some rank still uses."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from paceline.torch.data.slots import MAX_SLOTS


class Pool:
    """Slots are taken, lent to ranks, and free again once every rank has given its own back. Not thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._free: list[int] = []
        self._lent: dict[int, set[int]] = {}

    @property
    def lent(self) -> int:
        """The number of slots that ranks use."""
        return len(self._lent)

    def take(self) -> int:
        """Return the lowest slot that is free. RuntimeError if there are no more."""
        if self._free:
            return heapq.heappop(self._free)
        if self._count == MAX_SLOTS:
            raise RuntimeError(f"the ranks keep tensors of {MAX_SLOTS} batches: copy what must be kept")
        self._count += 1
        return self._count - 1

    def lend(self, slot: int, ranks: Iterable[int]) -> None:
        """These ranks use the slot now; without any it is free again."""
        self._lent[slot] = set(ranks)
        self._settle(slot)

    def give_back(self, slot: int, rank: int) -> bool:
        """A rank does not use the slot any more. Returns whether that made it free."""
        if slot not in self._lent:
            return False
        self._lent[slot].discard(rank)
        return self._settle(slot)

    def forget(self, rank: int) -> None:
        """A rank is gone."""
        for slot in list(self._lent):
            self.give_back(slot, rank)

    def reclaim(self) -> None:
        """Slots that were taken and never lent are free again: nobody will write to them."""
        self._free = [slot for slot in range(self._count) if slot not in self._lent]

    def _settle(self, slot: int) -> bool:
        if self._lent[slot]:
            return False
        del self._lent[slot]
        heapq.heappush(self._free, slot)
        return True
