"""ElasticSampler gives each rank its share of what is left of an epoch."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

from torch.utils.data import Sampler

from paceline.horovod import job


class ElasticSampler(Sampler[int]):
    """Like torch's DistributedSampler, but it also records which part of the epoch has been processed.

    Pass it to the TorchState, call `record_batch` after each batch and `set_epoch` at the end of each epoch. After a
    reset the ranks share the samples that were not processed.

    shuffle: whether the order is shuffled, seeded by `seed` and the epoch, both of which must be the same on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset, self.shuffle, self.seed = dataset, shuffle, seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Start an epoch. Call it at the end of the previous one, so that a resumed epoch does not start again."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Note that every rank has processed a batch of `batch_size` samples."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, int]:
        """Return the epoch and the number of samples that all ranks have processed in it."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict` returned."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Share what is left of the epoch among the present ranks."""
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
