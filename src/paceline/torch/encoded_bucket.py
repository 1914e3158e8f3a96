"""A bucket of gradients whose mean over the ranks may be encoded between machines."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from paceline.torch.channel import start_all_reduce
from paceline.torch.compression import Compression
from paceline.torch.mean_bucket import MeanBucket
from paceline.torch.work import WorkGroup


class EncodedBucket(MeanBucket):
    """Gradients whose mean `compression` encodes where it takes their dtype. index: of this bucket among all of its."""

    def __init__(self, index: int, parameters: Sequence[Tensor], compression: Compression) -> None:
        super().__init__(parameters)
        self._index, self._compression = index, compression

    def exchange(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to make them the mean over the ranks of `group`, and to learn which of them any rank has."""
        if not self._compression.encodes(self.gradients.dtype):
            return super().exchange(group)
        living = [(slot, one) for slot, reference in enumerate(self._parameters) if (one := reference()) is not None]
        absent = {place for place, (slot, _) in enumerate(living) if not self.present[slot]}
        # The numbers must not be lost among gradients.
        self._beside.copy_(self.present)
        work = start_all_reduce(self._beside, dist.ReduceOp.AVG, group)
        begins = [self.layout.begins[slot] for slot, _ in living]
        encoded = self._compression.mean(self._index, self.gradients, [one for _, one in living], begins, absent)
        return WorkGroup([encoded, work])
