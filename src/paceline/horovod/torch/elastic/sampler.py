"""ElasticSampler: each rank's share of a data set, of what is left of the epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from paceline.horovod import job


class ElasticSampler(Sampler[int]):
    """As torch's DistributedSampler, and it remembers how far the epoch has come.

    Put it into the TorchState, call `record_batch` after each batch and `set_epoch` at the end of each epoch. After a
    reset the ranks share what was not processed. shuffle: in an order made of `seed` and the epoch, which must be equal
    on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begin an epoch; call it at the end of the one before, so that a resumed epoch is not begun again."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Every rank has processed a batch of this size."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Share what is left of the epoch among the ranks that there are now."""
        here = job.current()
        self.num_replicas, self.rank = here.size, here.rank
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        left = self.remaining_indices
        filled = (left + left * self.num_replicas)[: self.total_size]
        return iter(filled[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples
