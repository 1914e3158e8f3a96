"""Exchanges Python objects between ranks: plain data, NumPy arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.horovod import job
from paceline.horovod.plain_data import Blob, Kind, pack, sizes, unpack
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.allgather import allgather_with_counts
from paceline.horovod.torch.broadcast import broadcast_, broadcast_async_
from paceline.horovod.torch.tensors import in_host
from paceline.horovod.torch.waiting import synchronize


def _split(tensor: Tensor) -> tuple[Any, Blob]:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise TypeError(f"a tensor of layout {tensor.layout} is not sent between ranks: tensor.to_dense() is")
    memory: Blob = in_host(tensor).reshape(-1).view(torch.uint8).numpy()
    kind = str(tensor.dtype).removeprefix("torch.")
    return [kind, list(tensor.shape), tensor.device.type, tensor.requires_grad and tensor.is_leaf], memory


def _join(meta: Any, blob: Blob) -> Tensor:
    kind, shape, device, requires_grad = meta
    dtype = getattr(torch, kind)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"unknown dtype {kind!r}")
    flat = torch.from_numpy(blob).view(dtype) if blob.size else torch.empty(0, dtype=dtype)
    return flat.reshape(shape).to(device).requires_grad_(requires_grad)


def _parameter(meta: Any, blob: Blob) -> torch.nn.Parameter:
    tensor = _join([*meta[:3], False], blob)
    return torch.nn.Parameter(tensor, requires_grad=meta[3])


def _nothing() -> Blob:
    return np.empty(0, np.uint8)


def _dtype(meta: Any, _: Blob) -> torch.dtype:
    dtype = getattr(torch, meta)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"unknown dtype {meta!r}")
    return dtype


KINDS = (
    Kind("tensor", Tensor, _split, _join),
    Kind("parameter", torch.nn.Parameter, _split, _parameter),
    Kind("size", torch.Size, lambda size: (list(size), _nothing()), lambda meta, _: torch.Size(meta)),
    Kind("dtype", torch.dtype, lambda dtype: (str(dtype).removeprefix("torch."), _nothing()), _dtype),
    Kind("device", torch.device, lambda device: (str(device), _nothing()), lambda meta, _: torch.device(meta)),
)
"""How torch's types are serialised; see `plain_data.Kind`."""


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's object on every rank; the root gets its own object back.

    The object may hold plain data, NumPy arrays and tensors, see `plain_data.pack`; tensors return on the type of
    device that they were on. Nothing is unpickled: anything else raises TypeError on every rank.
    """
    base = name or "object"
    is_root = job.current().rank == root_rank
    refusal, header, blobs = _pack(obj) if is_root else ("", b"", [])
    length = torch.tensor([-len(header) if refusal else len(header)])
    broadcast_(length, root_rank, f"{base}.sz", process_set)
    text = torch.from_numpy(_writable(header)) if is_root else torch.empty(abs(int(length)), dtype=torch.uint8)
    broadcast_(text, root_rank, f"{base}.t", process_set)
    if not is_root:
        header = text.numpy().tobytes()
    if length < 0:
        raise TypeError(f"rank {root_rank}: {header.decode()}")
    if not is_root:
        blobs = [np.empty(size, np.uint8) for size in sizes(header)]
    waiting = [
        broadcast_async_(torch.from_numpy(_writable(blob)), root_rank, f"{base}.b{number}", process_set)
        for number, blob in enumerate(blobs)
        if blob.size
    ]
    for handle in waiting:
        synchronize(handle)
    return obj if is_root else unpack(header, blobs, KINDS)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Return every rank's object, in rank order; `broadcast_object` says what an object may hold.

    Raises TypeError on every rank if one rank's object cannot be sent.
    """
    refusal, header, blobs = _pack(obj)
    length = (-len(header) if refusal else len(header)).to_bytes(8, "little", signed=True)
    mine = np.concatenate([np.frombuffer(length + header, np.uint8), *blobs])
    everything, counts = allgather_with_counts(torch.from_numpy(mine), f"{name or 'object'}.t", process_set)
    parts = [part.numpy() for part in everything.split(counts)]
    return [_read(part, rank) for rank, part in enumerate(parts) if part.size]


def _pack(obj: Any) -> tuple[str, bytes, list[Blob]]:
    """Return "", the header and the blobs; or the refusal, as text and as header, so that other ranks see it too."""
    try:
        return "", *pack(obj, KINDS)
    except TypeError as error:
        return str(error), str(error).encode(errors="replace"), []


def _read(memory: Blob, rank: int) -> Any:
    length = int.from_bytes(memory[:8].tobytes(), "little", signed=True)
    start = 8 + abs(length)
    header = memory[8:start].tobytes()
    if length < 0:
        raise TypeError(f"rank {rank} of the process set: {header.decode()}")
    blobs = []
    for size in sizes(header):
        blobs.append(
            memory[start : start + size].copy()
        )  # a copy is aligned for any dtype and does not keep the rest alive
        start += size
    return unpack(header, blobs, KINDS)


def _writable(memory: bytes | Blob) -> Blob:
    blob = np.frombuffer(memory, np.uint8) if isinstance(memory, bytes) else memory
    return blob if blob.flags.writeable else blob.copy()
