"""A bucket of gradients whose mean over the ranks may be encoded between machines."""

from __future__ import annotations

from collections.abc import Sequence

import torch.distributed as dist
from torch import Tensor

from paceline.torch.compression import Compression
from paceline.torch.history import History
from paceline.torch.mean_bucket import MeanBucket


class EncodedBucket(MeanBucket):
    """Gradients whose mean `compression` encodes where it takes their dtype. index: of this bucket among all of its."""

    def __init__(self, index: int, parameters: Sequence[Tensor], compression: Compression) -> None:
        super().__init__(parameters)
        self._index, self._compression = index, compression
        if compression.feeds_back(self.layout.dtype):
            self.history = History(parameters)

    @property
    def encoded(self) -> bool:
        """True if the gradients may be encoded between machines, which may change them."""
        return self._compression.encodes(self.gradients.dtype) or super().encoded

    def mean(self, group: dist.ProcessGroup | None) -> dist.Work:
        """Start to make the gradients their mean over the ranks of `group`."""
        if not self._compression.encodes(self.gradients.dtype):
            return super().mean(group)
        self.forget_undone()
        living = [(slot, one) for slot, reference in enumerate(self._parameters) if (one := reference()) is not None]
        absent = {place for place, (slot, _) in enumerate(living) if not self.present[slot]}
        begins = [self.layout.begins[slot] for slot, _ in living]
        return self._compression.mean(self._index, self.gradients, [one for _, one in living], begins, absent)

    def forget_undone(self) -> None:
        """Forget what encoding has lost in the last exchange if no step has used that, and its gradients are gone."""
        if self.history is not None:
            if self.history.undone:
                self._compression.forget(self.parameters)
            self.history.judged()
