"""Texts of any length from every rank of a group."""

from __future__ import annotations

import torch
import torch.distributed as dist

from paceline.torch.compat import all_gather_single


def gather_bytes(data: bytes, group: dist.ProcessGroup | None) -> list[bytes]:
    """Return the bytes that each rank of `group` gives, in the order of ranks."""
    ranks = dist.get_world_size(group)
    lengths = torch.empty(ranks, dtype=torch.int64)
    all_gather_single(lengths, torch.tensor([len(data)]), group=group)
    widest = int(lengths.max())
    row = torch.zeros(widest, dtype=torch.uint8)
    row[: len(data)] = torch.tensor(list(data), dtype=torch.uint8)
    rows = torch.empty(ranks * widest, dtype=torch.uint8)
    all_gather_single(rows, row, group=group)
    return [bytes(rows[rank * widest :][:length].numpy()) for rank, length in enumerate(lengths.tolist())]
