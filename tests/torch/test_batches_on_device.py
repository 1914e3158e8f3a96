"""Batches that travel to a device one ahead: their order, weights and memory, and on a GPU their stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from paceline.torch.data import OnDevice


class Weighing:
    """Five batches, each with a weight of its own; `given` says how many were taken."""

    def __init__(self) -> None:
        self.weight, self.given = 0.0, 0
        self.source = [torch.full((4, 3), float(number)) for number in range(5)]

    def __iter__(self) -> Iterator[Any]:
        for number, tensor in enumerate(self.source):
            self.weight, self.given = number / 10, number + 1
            yield {"inputs": [tensor, (tensor[0],)], "names": np.arange(number), "number": number}


def walk(device: str) -> None:
    loader = Weighing()
    seen = 0
    for batch in (batches := OnDevice(loader, device)):
        (first, (row,)) = batch["inputs"]
        assert first.device.type == torch.device(device).type
        assert torch.equal(first.cpu(), loader.source[seen]) and torch.equal(row.cpu(), loader.source[seen][0])
        assert batch["number"] == seen and len(batch["names"]) == seen
        assert batches.weight == seen / 10
        assert loader.given == min(seen + 2, 5)  # the next one is under way
        first += 1
        seen += 1
    assert seen == 5
    assert all(int(tensor[0, 0]) == number for number, tensor in enumerate(loader.source))


def test_batches_come_in_order_each_with_its_weight_and_in_memory_of_their_own() -> None:
    walk("cpu")


@pytest.mark.parametrize("fails_at", [0, 1, 3])
def test_what_the_loader_raises_comes_through(fails_at: int) -> None:
    def batches() -> Iterator[torch.Tensor]:
        for number in range(fails_at):
            yield torch.tensor([number])
        raise KeyError("broken")

    moved = iter(OnDevice(batches(), "cpu"))
    assert [int(next(moved)) for _ in range(fails_at - 1)] == list(range(fails_at - 1))
    with pytest.raises(KeyError, match="broken"):
        next(moved)


needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="this machine has no GPU that torch can use")


@needs_gpu
def test_batches_on_a_gpu() -> None:
    walk("cuda")


@needs_gpu
def test_work_on_the_current_stream_waits_for_the_copies() -> None:
    large = [torch.full((1 << 24,), float(number)) for number in range(6)]
    sums = []
    with torch.cuda.stream(torch.cuda.Stream()):
        for batch in OnDevice(large, "cuda"):
            sums.append(batch.sum())
            del batch  # its memory may not be used again before the sum is there
        torch.cuda.synchronize()
    assert [float(one) for one in sums] == [number * 2.0**24 for number in range(6)]
