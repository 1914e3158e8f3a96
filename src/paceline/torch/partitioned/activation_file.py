"""Activations in a file without a name: written by the forward, and mapped into memory when the backward needs them."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.multiprocessing.reductions import StorageWeakRef

from paceline.torch.partitioned.errors import HybridError

_LEAST = 64 << 10
"""Bytes of a tensor below which it stays in memory."""
_TRIAL = 32 << 20
"""Bytes that are written to find how fast the file is."""


class ActivationFile:
    """A file in the folder for temporary files (TMPDIR), which goes with the process, however that ends.

    Raises HybridError if that folder lies in memory itself.
    """

    def __init__(self) -> None:
        self.folder = tempfile.gettempdir()
        if _in_memory(self.folder):
            raise HybridError(
                f"activations can't be kept in a file in {self.folder}, which lies in memory: "
                "let TMPDIR name a folder on a disk"
            )
        self._file = tempfile.TemporaryFile(dir=self.folder, buffering=0)  # noqa: SIM115 - open until `close`
        self._end = 0
        self._free: dict[int, list[int]] = {}

    def seconds_per_byte(self) -> float:
        """Return the seconds per byte that writing to the disk takes; reading takes about as long."""
        begin = time.perf_counter()
        place = self._write(memoryview(os.urandom(1 << 20) * (_TRIAL >> 20)))
        os.fdatasync(self._file.fileno())
        seconds = time.perf_counter() - begin
        place.release()
        return seconds / _TRIAL

    def saving(self, others: Iterable[Tensor]) -> saved_tensors_hooks:
        """A context in which large tensors that autograd saves go into the file. others: that are in memory anyway."""
        return _Saving(self, others)

    def close(self) -> None:
        """Give the file's space back, once no backward needs it."""
        self._file.close()

    def write(self, storage: torch.UntypedStorage) -> _Place:
        """Write what it holds."""
        return self._write(memoryview(torch.empty(0, dtype=torch.uint8).set_(storage).numpy().data))

    def read(self, place: _Place) -> torch.UntypedStorage:
        """Return the values that were written there, mapped into memory."""
        mapped = _Mapped(self._file.fileno(), place.nbytes, offset=place.offset)
        mapped.place = place
        return torch.frombuffer(mapped, dtype=torch.uint8).untyped_storage()

    def _write(self, data: memoryview) -> _Place:
        size = -(-data.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
        places = self._free.setdefault(size, [])
        if places:
            offset = places.pop()
        else:
            offset, self._end = self._end, self._end + size
        place = _Place(offset, data.nbytes, places)
        done = 0
        try:
            while done < data.nbytes:
                done += os.pwrite(self._file.fileno(), data[done:], offset + done)
        except OSError as error:
            raise HybridError(f"activations can't be written to {self.folder}: {error.strerror}") from error
        return place


class _Saving(saved_tensors_hooks):
    """Writes what a call saves when it is over: some fill a tensor after they have saved it, as RReLU does.

    Autograd gives every call a number.
    """

    def __init__(self, file: ActivationFile, others: Iterable[Tensor]) -> None:
        super().__init__(self._pack, self._unpack)
        self._file = file
        self._lasting = {_reference(tensor) for tensor in others}
        self._known: dict[StorageWeakRef, tuple[int, weakref.ref[_Content]]] = {}
        self._waiting: list[_Content] = []
        self._number = -1

    def __exit__(self, *args: object) -> None:
        super().__exit__(*args)
        self._write()

    def _write(self) -> None:
        for content in self._waiting:
            assert content.storage is not None
            content.place, content.storage = self._file.write(content.storage), None
        self._waiting.clear()

    def _pack(self, tensor: Tensor) -> Tensor | _Saved:
        number = torch.autograd._get_sequence_nr()
        if number != self._number:
            self._write()
            self._number = number
        if tensor.layout != torch.strided:
            return tensor.detach()
        storage, key = tensor.untyped_storage(), _reference(tensor)
        if storage.nbytes() < _LEAST or key in self._lasting:
            return tensor.detach()
        version, reference = self._known.get(key, (-1, None))
        content = reference() if reference is not None and version == tensor._version else None
        if content is None:
            content = _Content(storage)
            self._waiting.append(content)
            self._known[key] = (tensor._version, weakref.ref(content))
        bits = tensor.is_conj(), tensor.is_neg()
        return _Saved(content, tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride(), *bits)

    def _unpack(self, saved: Tensor | _Saved) -> Tensor:
        if isinstance(saved, Tensor):
            return saved
        content = saved.content
        if content.place is None:
            self._write()
        assert content.place is not None
        storage = self._file.read(content.place)
        found: Tensor = torch.empty(0, dtype=saved.dtype).set_(storage, saved.offset, saved.shape, saved.stride)
        found = found.conj() if saved.conjugate else found
        return torch._neg_view(found) if saved.negative else found


class _Content:
    """The content of a storage: the storage itself until it is written, then its place in the file."""

    def __init__(self, storage: torch.UntypedStorage) -> None:
        self.storage: torch.UntypedStorage | None = storage
        self.place: _Place | None = None


class _Place:
    """Some bytes of the file, which are free again once nothing refers to them."""

    def __init__(self, offset: int, nbytes: int, free: list[int]) -> None:
        self.offset, self.nbytes = offset, nbytes
        self.release = weakref.finalize(self, free.append, offset)
        self.release.atexit = False


class _Mapped(mmap.mmap):
    """Mapped bytes, whose place is not given to others while a tensor has them."""

    place: _Place


class _Saved(NamedTuple):
    """A tensor whose storage goes into the file; `offset` in elements.

    conjugate, negative: whether it is the conjugate or the negative of what is stored.
    """

    content: _Content
    dtype: torch.dtype
    offset: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    conjugate: bool
    negative: bool


def _reference(tensor: Tensor) -> StorageWeakRef:
    """A key for the tensor's storage that no other storage has, also once it is gone."""
    return StorageWeakRef(tensor.untyped_storage())  # type: ignore[no-untyped-call]


def _in_memory(folder: str) -> bool:
    device = Path(folder).stat().st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[2] == name and after.split()[0] in ("tmpfs", "ramfs"):
            return True
    return False
