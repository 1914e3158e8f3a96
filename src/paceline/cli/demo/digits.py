"""The handwritten digits that scikit-learn ships: 1797 images of 8 × 8, always split the same way."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor

TRAINING = 1437
TEST = 360


@dataclass(frozen=True)
class Digits:
    """Images, float32 [n, 1, 8, 8] around 0, and labels, int64 [n]. The first 1437 are for training."""

    images: Tensor
    labels: Tensor

    def test(self) -> tuple[Tensor, Tensor]:
        """Return the images and labels that no training uses."""
        return self.images[TRAINING:], self.labels[TRAINING:]

    def batches(self, epoch: int, batch: int, shard: int = 0, shards: int = 1) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield the part of each batch that belongs to `shard`, in an order that only the epoch determines.

        batch: images per batch, all shards together. Images that do not fill a batch are left out.
        """
        order = torch.randperm(TRAINING, generator=torch.Generator().manual_seed(epoch))
        part = batch // shards
        for start in range(0, steps_per_epoch(batch) * batch, batch):
            chosen = order[start + shard * part : start + (shard + 1) * part]
            yield self.images[chosen], self.labels[chosen]


def steps_per_epoch(batch: int) -> int:
    """Return the number of full batches in the training images."""
    return TRAINING // batch


def share_digits() -> Digits:
    """Return the images on every rank; rank 0 reads and broadcasts them. Collective.

    Importing scikit-learn on every rank would take longer.
    """
    if dist.get_rank() == 0:
        digits = _read()
    else:
        count = TRAINING + TEST
        digits = Digits(torch.empty(count, 1, 8, 8), torch.empty(count, dtype=torch.int64))
    dist.broadcast(digits.images, src=0)
    dist.broadcast(digits.labels, src=0)
    return digits


def _read() -> Digits:
    from sklearn.datasets import load_digits  # type: ignore[import-untyped]

    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    return Digits(
        images=(torch.from_numpy(images).float().reshape(-1, 1, 8, 8) / 16 - 0.3)[order].contiguous(),
        labels=torch.from_numpy(labels).long()[order].contiguous(),
    )
