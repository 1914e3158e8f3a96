"""A bucket of gradients whose mean over the ranks may be encoded between machines."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from paceline.torch.compression import Compression
from paceline.torch.mean_bucket import MeanBucket
from paceline.torch.work import WorkGroup


class EncodedBucket(MeanBucket):
    """Gradients whose mean `compression` encodes where it takes their dtype. index: of this bucket among all of its."""

    def __init__(self, index: int, parameters: Sequence[Tensor], compression: Compression) -> None:
        super().__init__(parameters)
        self._index, self._compression = index, compression

    def start(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to make them the mean over the ranks of `group`."""
        if not self._compression.encodes(self.flat.dtype):
            return super().start(group)
        absent = set((self.present == 0).nonzero().flatten().tolist())
        # The numbers must not be lost among gradients.
        work: dist.Work | None = dist.all_reduce(self.present, dist.ReduceOp.AVG, group, async_op=True)
        assert work is not None
        gradients = self.flat[: self.layout.numel]
        encoded = self._compression.mean(self._index, gradients, self.parameters, self.layout.begins, absent)
        return WorkGroup([encoded, work])
