"""Transfers of gradients to owners, and of owners' parameters to all ranks: as they are or encoded between machines."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.group.arguments import encoding
from paceline.settings.names import NONE
from paceline.torch.backend import paceline_group
from paceline.torch.channel import start_reduce_scatter
from paceline.torch.compat import all_gather_single
from paceline.torch.residuals import Residuals
from paceline.torch.sharded.bucket import AllGather, ReduceScatter


class PlainAllGather:
    """Moves values as they are, with any backend."""

    lossy = False

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self._group = group

    def __call__(self, output: Tensor, block: Tensor) -> dist.Work:
        """Start."""
        work: dist.Work = all_gather_single(output, block, group=self._group, async_op=True)
        return work


class EncodedAllGather:
    """Moves values of float32 encoded between machines. All ranks, the owner too, end with the same decoded bits.

    Raises TypeError if the group is not Paceline's, ValueError if no codec is called so.
    """

    def __init__(self, group: dist.ProcessGroup | None, codec: str) -> None:
        self._group = paceline_group(group)
        self._codec = encoding(codec)
        self.lossy = codec != NONE

    def __call__(self, output: Tensor, block: Tensor) -> dist.Work:
        """Start."""
        return self._group.all_gather_encoded(output, block, self._codec)


class PlainReduceScatter:
    """Takes the mean of gradients as they are, with any backend."""

    residuals: Residuals | None = None

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self._group = group

    def __call__(
        self,
        block: Tensor,
        flat: Tensor,
        parameters: Sequence[Tensor],
        begins: Sequence[int],
        absent: Collection[int],
    ) -> dist.Work:
        """Start."""
        return start_reduce_scatter(block, flat, dist.ReduceOp.AVG, self._group)


class EncodedReduceScatter:
    """Takes the mean of gradients of float32 that are encoded between machines.

    residuals: what that has lost on this rank. bucket: the number of the bucket there. Raises what EncodedAllGather
    raises.
    """

    def __init__(self, group: dist.ProcessGroup | None, codec: str, residuals: Residuals, bucket: int) -> None:
        self._group = paceline_group(group)
        self._codec = encoding(codec)
        self.residuals: Residuals | None = residuals
        self._bucket = bucket

    def __call__(
        self,
        block: Tensor,
        flat: Tensor,
        parameters: Sequence[Tensor],
        begins: Sequence[int],
        absent: Collection[int],
    ) -> dist.Work:
        """Start."""
        assert self.residuals is not None
        residual = self.residuals.of(self._bucket, flat.numel(), parameters, begins, absent)
        return self._group.reduce_scatter_encoded(block, flat, dist.ReduceOp.AVG, self._codec, residual)


def all_gather_of(group: dist.ProcessGroup | None, codec: str | None, dtype: torch.dtype) -> AllGather:
    """Return the collective that moves parameters of this dtype. Raises what EncodedAllGather raises."""
    encoded = EncodedAllGather(group, codec) if codec is not None else None
    return encoded if encoded is not None and dtype == torch.float32 else PlainAllGather(group)


def reduce_scatter_of(
    group: dist.ProcessGroup | None, codec: str | None, dtype: torch.dtype, residuals: Residuals, bucket: int
) -> ReduceScatter:
    """Return the collective that moves gradients of this dtype. Raises what EncodedReduceScatter raises."""
    encoded = EncodedReduceScatter(group, codec, residuals, bucket) if codec is not None else None
    return encoded if encoded is not None and dtype == torch.float32 else PlainReduceScatter(group)
