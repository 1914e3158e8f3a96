"""The ranks of the approaches: a wrong step is noticed, and Baidu's ring sums."""

from __future__ import annotations

import queue
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from paceline_bench.ranks.approaches.steps import RATE, Steps
from paceline_bench.ranks.approaches.torch_mpi import ring


class Linear(Steps):
    """Two weights whose gradients are known; `factor` is what the exchange makes of the mean."""

    def __init__(self, rank: int, factor: float) -> None:
        self.rank, self.size, self.about, self._factor = rank, 2, "linear", factor
        self.build("linear", 1, 1)

    def build(self, model, batch, pixels):
        self._weights = [np.ones((2, 3), np.float32), np.full(5, 0.5, np.float32)]

    def weights(self):
        return [weight.copy() for weight in self._weights]

    def gradients(self):
        return [np.full_like(weight, 4.0 * self.rank + 2.0) for weight in self._weights]

    def step(self):
        self._weights[0] -= RATE * 4.0
        self._weights[1] -= RATE * 4.0 * self._factor
        return 0.0

    def close(self):
        pass


@pytest.mark.parametrize(("factor", "wrong"), [(1.0, 0), (1.01, 1), (0.5, 1), (float("nan"), 1)])
def test_tensors_that_a_step_changes_wrongly_are_counted(factor, wrong, tmp_path):
    ranks = [Linear(rank, factor) for rank in range(2)]
    for one in ranks:
        one.do_refer(str(tmp_path))
    assert [one.do_check(str(tmp_path)) for one in ranks] == [{"wrong": wrong}] * 2


class World:
    """What the ring uses of an MPI communicator, between threads."""

    def __init__(self, rank: int, boxes: list[queue.Queue[np.ndarray]]) -> None:
        self.rank, self.boxes = rank, boxes

    def Get_rank(self):
        return self.rank

    def Get_size(self):
        return len(self.boxes)

    def Sendrecv(self, sent, to, tag, received, source, other_tag):
        assert to == (self.rank + 1) % len(self.boxes) and source == (self.rank - 1) % len(self.boxes)
        self.boxes[to].put(sent.copy())
        received[:] = self.boxes[self.rank].get(timeout=20)


@settings(max_examples=20, deadline=None)
@given(ranks=st.integers(1, 6), elements=st.integers(1, 40))
def test_the_ring_sums_vectors_of_any_length(ranks, elements):
    boxes = [queue.Queue() for _ in range(ranks)]
    data = [np.arange(elements, dtype=np.float32) * (rank + 1) for rank in range(ranks)]
    threads = [threading.Thread(target=ring, args=(World(rank, boxes), data[rank])) for rank in range(ranks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    expected = np.arange(elements, dtype=np.float32) * (ranks * (ranks + 1) // 2)
    assert all(np.array_equal(one, expected) for one in data)
