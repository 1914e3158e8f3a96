"""Exchanges Python objects between ranks: plain data, NumPy arrays, and what a framework adds to them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from paceline.coordinate import Span
from paceline.horovod import job
from paceline.horovod.channel import Channel
from paceline.horovod.handles import Pending
from paceline.horovod.plain_data import Blob, Kind, pack, sizes, unpack
from paceline.horovod.process_sets import ProcessSet

if TYPE_CHECKING:
    from paceline.coordinate import Coordinator, Request


def broadcast_object(obj: Any, root_rank: int, name: str | None, process_set: ProcessSet, kinds: Iterable[Kind]) -> Any:
    """Return the root's object on every rank; the root gets its own object back.

    kinds: types that the object may hold beside those of `plain_data.pack`. Nothing is unpickled: anything else raises
    TypeError on every rank.
    """
    base = f"broadcast.{name or 'object'}"
    channel = job.current().channel(process_set.process_set_id, "Broadcast")
    root = channel.root(root_rank)
    is_root = job.current().rank == root_rank
    refusal, header, blobs = _pack(obj, kinds) if is_root else ("", b"", [])
    length = np.array([-len(header) if refusal else len(header)])
    _broadcast(channel, root, {f"{base}.sz": length.view(np.uint8)})
    text = _writable(header) if is_root else np.empty(abs(int(length[0])), np.uint8)
    _broadcast(channel, root, {f"{base}.t": text})
    if not is_root:
        header = text.tobytes()
    if length[0] < 0:
        raise TypeError(f"rank {root_rank}: {header.decode()}")
    if not is_root:
        blobs = [np.empty(size, np.uint8) for size in sizes(header)]
    _broadcast(channel, root, {f"{base}.b{number}": _writable(blob) for number, blob in enumerate(blobs) if blob.size})
    return obj if is_root else unpack(header, blobs, kinds)


def allgather_object(obj: Any, name: str | None, process_set: ProcessSet, kinds: Iterable[Kind]) -> list[Any]:
    """Return every rank's object, in rank order; `broadcast_object` says what an object may hold.

    Raises TypeError on every rank if one rank's object cannot be sent.
    """
    refusal, header, blobs = _pack(obj, kinds)
    length = (-len(header) if refusal else len(header)).to_bytes(8, "little", signed=True)
    mine = np.concatenate([np.frombuffer(length + header, np.uint8), *blobs])
    channel = job.current().channel(process_set.process_set_id, "Allgather")
    names = [f"allgather.{name or 'object'}.t"]
    (request,) = channel.start(
        names, lambda coordinator: [coordinator.all_gather(names[0], Span.of(mine), shape=mine.shape)]
    )
    Pending(channel, names, [request], lambda: None).result()
    everything = np.frombuffer(request.output, np.uint8)  # type: ignore[call-overload]
    ends = np.cumsum(request.counts)[:-1]
    return [_read(part, rank, kinds) for rank, part in enumerate(np.split(everything, ends)) if part.size]


def _broadcast(channel: Channel, root: int, arrays: dict[str, Blob]) -> None:
    """Give every rank the root's arrays, in place."""

    def start(coordinator: Coordinator) -> list[Request]:
        return [coordinator.broadcast(name, Span.of(array), root, shape=array.shape) for name, array in arrays.items()]

    names: Sequence[str] = list(arrays)
    Pending(channel, names, channel.start(names, start), lambda: None).result()


def _pack(obj: Any, kinds: Iterable[Kind]) -> tuple[str, bytes, list[Blob]]:
    """Return "", the header and the blobs; or the refusal, as text and as header, so that other ranks see it too."""
    try:
        return "", *pack(obj, kinds)
    except Exception as error:
        said = (
            str(error)
            if isinstance(error, TypeError)
            else f"the object cannot be sent: {type(error).__name__}: {error}"
        )
        return said, said.encode(errors="replace"), []


def _read(memory: Blob, rank: int, kinds: Iterable[Kind]) -> Any:
    length = int.from_bytes(memory[:8].tobytes(), "little", signed=True)
    start = 8 + abs(length)
    header = memory[8:start].tobytes()
    if length < 0:
        raise TypeError(f"rank {rank} of the process set: {header.decode()}")
    blobs = []
    for size in sizes(header):
        # A copy is aligned for any dtype and does not keep the rest alive.
        blobs.append(memory[start : start + size].copy())
        start += size
    return unpack(header, blobs, kinds)


def _writable(memory: bytes | Blob) -> Blob:
    blob = np.frombuffer(memory, np.uint8) if isinstance(memory, bytes) else memory
    return blob if blob.flags.writeable else blob.copy()
