"""The wrapped optimizer's state: shards of it on each rank, and the same as one optimizer would have it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.torch.compat import all_gather_single
from paceline.torch.flat import FlatLayout
from paceline.torch.sharded.bucket import Piece, ShardBucket
from paceline.torch.sharded.gather_bytes import gather_bytes
from paceline.torch.state_kind import Kind, kind_of, number_of

States = Mapping[Tensor, dict[str, object]]
"""By parameter, or by piece of one."""


def gathered(
    buckets: Sequence[ShardBucket], shards: States, group: dist.ProcessGroup | None, to: int | None
) -> dict[Tensor, dict[str, object]]:
    """The states of whole parameters on rank `to` of `group` (None: on all ranks); nothing on others. A collective.

    A state of a parameter's own shape is put together from the owners' parts; numbers are those of its first owner.
    Raises TypeError for a state that is neither.
    """
    described = [[(piece.slot, _kinds(piece, shards)) for piece in bucket.pieces] for bucket in buckets]
    everybodys = [json.loads(text) for text in gather_bytes(json.dumps(described).encode(), group)]
    wanted = to in (None, dist.get_rank(group))
    result: dict[Tensor, dict[str, object]] = {}
    for index, bucket in enumerate(buckets):
        owned: dict[int, dict[str, Kind]] = {}
        for theirs in everybodys:
            for slot, kinds in theirs[index]:
                if kinds:
                    owned.setdefault(slot, {key: Kind(*kind) for key, kind in kinds.items()})
        parts = {
            (key, kind.dtype) for kinds in owned.values() for key, kind in kinds.items() if kind.elements and kind.dtype
        }
        whole = {part: _gather(bucket, shards, *part, group, to, wanted) for part in sorted(parts)}
        for slot, kinds in sorted(owned.items()) if wanted else ():
            result[bucket.parameters[slot]] = {
                key: whole[key, kind.dtype][slot].clone() if kind.elements else number_of(kind)
                for key, kind in kinds.items()
            }
    return result


def check(bucket: ShardBucket, whole: States) -> None:
    """Raise ValueError if a state has another shape than its parameter, on ranks that do not own a piece of it too."""
    for parameter, view in zip(bucket.parameters, bucket.views, strict=True):
        for key, value in whole.get(parameter, {}).items():
            if isinstance(value, Tensor) and value.dim() and value.shape != view.shape:
                raise ValueError(
                    f"the state {key!r} has shape {list(value.shape)}, not its parameter's {list(view.shape)}: "
                    "it can't be cut"
                )


def cut(bucket: ShardBucket, piece: Piece, states: Mapping[str, object]) -> dict[str, object]:
    """Return the part of its whole parameter's states that belongs to `piece`; their shapes were checked."""
    view = bucket.views[piece.slot]
    result: dict[str, object] = {}
    for key, value in states.items():
        if not isinstance(value, Tensor) or value.dim() == 0:
            result[key] = value
        else:
            layout = FlatLayout([view], 1)
            flat = torch.empty(layout.numel, dtype=value.dtype)
            layout.views(flat)[0].copy_(value)
            result[key] = flat[piece.begin : piece.end].clone()
    return result


def _kinds(piece: Piece, shards: States) -> dict[str, Kind]:
    return {key: kind_of(key, value, piece.values.shape) for key, value in shards.get(piece.values, {}).items()}


def _gather(
    bucket: ShardBucket,
    shards: States,
    key: str,
    dtype: str,
    group: dist.ProcessGroup | None,
    to: int | None,
    wanted: bool,
) -> list[Tensor]:
    """The states `key` of all of the bucket's parameters."""
    mine = torch.zeros(bucket.shard_numel, dtype=getattr(torch, dtype))
    for piece in bucket.pieces:
        value = shards.get(piece.values, {}).get(key)
        if isinstance(value, Tensor) and value.shape == piece.values.shape and value.dtype == mine.dtype:
            mine[piece.at : piece.at + value.numel()] = value.detach().view(-1)
    ranks = dist.get_world_size(group)
    whole = torch.empty(ranks * mine.numel() if wanted else 0, dtype=mine.dtype)
    if to is None:
        all_gather_single(whole, mine, group=group)
    else:
        dist.gather(mine, list(whole.view(ranks, -1)) if wanted else None, group=group, group_dst=to)
    return bucket.layout.views(whole) if wanted else []
