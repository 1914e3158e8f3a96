"""A device's batches: one that is in use is left alone while the next is on its way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from paceline_bench.ranks.data_feed import Batch, Feed  # noqa: E402


class Host:
    """Stands for the group of all ranks: each batch is full of its number, and comes as soon as it is asked for."""

    def __init__(self) -> None:
        self.asked = 0

    def send(self, array: Any, rank: int) -> None:
        assert rank == 4 and array.dtype == np.uint8 and array.size == 1
        self.asked += 1

    def recv(self, place: Any, rank: int, async_op: bool) -> Host:
        assert rank == 4 and async_op
        place.fill_(self.asked)
        return self

    def wait(self) -> None:
        pass


def test_a_batch_stays_as_it_came_while_the_next_one_comes() -> None:
    like: Batch = (torch.empty(3, 5), torch.empty(3, dtype=torch.int64))
    feed = Feed(Host(), 4, like)
    feed.ask()
    for number in range(1, 8):
        batch = feed.next()
        feed.ask()
        assert [one.shape for one in batch] == [one.shape for one in like]
        assert all(bool((one == number).all()) for one in batch)
