"""Memory in which batches wait for the ranks of a machine: equal slots of one anonymous file that all of them map."""

from __future__ import annotations

import fcntl
import mmap
import os
from multiprocessing import reduction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline.torch.data.layout import MAX_BYTES

MAX_SLOTS = 1 << 16
_GRAIN = 1 << 21
"""Bytes; mappings are multiples of it, so that batches which grow a little fit in."""


class Slots:
    """The slots of one file. A slot can hold any batch, and takes as much memory as was written to it.

    The file has no name and vanishes with the last process that has it open. Its size is fixed, so that no access can
    fail with SIGBUS. Mappings are kept, and shared by all arrays over them. Not thread-safe.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Open the slots of another process by a descriptor, which is owned from now on; None makes new ones.

        Raises MemoryError if the limit on the size of files is too low.
        """
        self.descriptor = _new_file() if descriptor is None else descriptor
        self._mapped: dict[int, mmap.mmap] = {}

    def array(self, slot: int, nbytes: int) -> NDArray[np.uint8]:
        """Return a new array uint8[nbytes] over the beginning of a slot. MemoryError without address space."""
        mapped = self._mapped.get(slot)
        if mapped is None or len(mapped) < nbytes:
            length = max(1, -(-nbytes // _GRAIN)) * _GRAIN
            try:
                mapped = mmap.mmap(self.descriptor, length, offset=slot * MAX_BYTES)
            except OSError as error:
                raise MemoryError(f"cannot map {length} bytes of batches: {error.strerror}") from None
            self._mapped[slot] = mapped
        return np.frombuffer(mapped, np.uint8, nbytes)

    def clear(self, slot: int, nbytes: int) -> None:
        """Give the first nbytes of a slot, in which no batch is any more, back to the machine."""
        self.array(slot, nbytes)
        self._mapped.pop(slot).madvise(mmap.MADV_REMOVE)

    def close(self) -> None:
        """Close the file; arrays stay usable."""
        self._mapped.clear()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __getstate__(self) -> Any:
        # For input workers that are spawned; forked ones inherit all of it.
        return reduction.DupFd(self.descriptor)

    def __setstate__(self, state: Any) -> None:
        self.__init__(state.detach())  # type: ignore[misc]


def _new_file() -> int:
    descriptor = os.memfd_create("paceline-batches", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, MAX_SLOTS * MAX_BYTES)
    except OSError as error:
        os.close(descriptor)
        raise MemoryError(f"no memory for shared batches ({error.strerror}): see ulimit -f") from None
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
    return descriptor
