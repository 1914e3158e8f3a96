"""The peers of a loader, the ranks that read together: who they are, and one exchange."""

from __future__ import annotations

import json
from typing import Any, Protocol

import numpy as np
import torch
import torch.distributed as dist

from paceline.group.group import Group

_MOST = 1022
"""Bytes that a rank can tell the others at once."""


class Peers(Protocol):
    """The ranks of a group."""

    rank: int
    size: int

    def gather(self, value: Any) -> list[Any]:
        """Return every rank's value, by rank; each is JSON of at most 1022 bytes. All ranks call it."""
        ...


class _Alone:
    rank = 0
    size = 1

    def gather(self, value: Any) -> list[Any]:
        return [value]


class _Raw:
    def __init__(self, group: Group) -> None:
        self._group, self.rank, self.size = group, group.rank, group.size

    def gather(self, value: Any) -> list[Any]:
        rows = np.empty((self.size, _MOST + 2), np.uint8)
        self._group.all_gather(rows, _packed(value))
        return [_unpacked(row.tobytes()) for row in rows]


class _Torch:
    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self._group, self.rank, self.size = group, dist.get_rank(group), dist.get_world_size(group)
        on_gpu = dist.get_backend(group) == "nccl"
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def gather(self, value: Any) -> list[Any]:
        mine = torch.from_numpy(_packed(value)).to(self._device)
        rows = [torch.empty_like(mine) for _ in range(self.size)]
        dist.all_gather(rows, mine, self._group)
        return [_unpacked(row.cpu().numpy().tobytes()) for row in rows]


def peers(group: dist.ProcessGroup | Group | None) -> Peers:
    """Return the ranks of a torch group or of Paceline's own; of None all of the job, or this process alone.

    Raises ValueError if this rank is not in the group.
    """
    if isinstance(group, Group):
        return _Raw(group)
    if group is None and not dist.is_initialized():
        return _Alone()
    if dist.get_rank(group) < 0:
        raise ValueError("this rank is not in the group that the batches are for")
    return _Torch(group)


def _packed(value: Any) -> Any:
    data = json.dumps(value, separators=(",", ":")).encode()
    if len(data) > _MOST:
        raise ValueError(f"{len(data)} bytes are more than ranks exchange here, {_MOST}")
    return np.frombuffer(len(data).to_bytes(2, "little") + data.ljust(_MOST, b" "), np.uint8).copy()


def _unpacked(row: bytes) -> Any:
    return json.loads(row[2 : 2 + min(_MOST, int.from_bytes(row[:2], "little"))])
