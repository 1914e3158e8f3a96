"""Exchanges Python objects between ranks: plain data, NumPy arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from paceline.horovod import objects
from paceline.horovod.plain_data import Blob, Kind
from paceline.horovod.process_sets import ProcessSet, global_process_set
from paceline.horovod.torch.tensors import in_host


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
"""The serialisation of torch's types; see `plain_data.Kind`."""


def broadcast_object(
    obj: Any, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's object on every rank; the root gets its own object back.

    The object may hold plain data, NumPy arrays and tensors, see `plain_data.pack`; tensors return on the type of
    device that they were on. Nothing is unpickled: anything else raises TypeError on every rank.
    """
    return objects.broadcast_object(obj, root_rank, name, process_set, KINDS)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Return every rank's object, in rank order; `broadcast_object` says what an object may hold.

    Raises TypeError on every rank if one rank's object cannot be sent.
    """
    return objects.allgather_object(obj, name, process_set, KINDS)
