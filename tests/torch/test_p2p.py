"""Messages between two ranks: tags, any source, batches, large and odd ones."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks


def check_ring(rank: int, size: int) -> None:
    for count in (0, 1, 1000, 300_000):
        for dtype in (torch.float32, torch.bfloat16, torch.int16, torch.bool):
            sent = torch.full((count,), rank, dtype=dtype)
            received = torch.full((count,), 99, dtype=dtype)
            works = [dist.isend(sent, (rank + 1) % size), dist.irecv(received, (rank - 1) % size)]
            for work in works:
                assert work is not None
                work.wait()
                assert work.is_completed()
            assert received.eq(torch.tensor((rank - 1) % size, dtype=dtype)).all()


def check_tags(rank: int, size: int) -> None:
    if rank == 0:
        for tag in (3, 1, 2):
            dist.send(torch.tensor([float(tag)]), 1, tag=tag)
    elif rank == 1:
        for tag in (1, 2, 3):
            received = torch.zeros(1)
            dist.recv(received, 0, tag=tag)
            assert received.item() == tag


def check_any_source(rank: int, size: int) -> None:
    if rank == 0:
        senders = set()
        for _ in range(2 * (size - 1)):
            received = torch.zeros(3)
            sender = dist.recv(received)
            assert received.eq(sender).all()
            senders.add(sender)
        assert senders == set(range(1, size))
    else:
        for _ in range(2):
            dist.send(torch.full((3,), float(rank)), 0)


def check_batch(rank: int, size: int) -> None:
    received = [torch.zeros(rank + other + 1) for other in range(size)]
    operations = []
    for other in range(size):
        if other != rank:
            operations.append(dist.P2POp(dist.isend, torch.full((rank + other + 1,), float(rank)), other))
            operations.append(dist.P2POp(dist.irecv, received[other], other))
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    assert all(received[other].eq(other).all() for other in range(size) if other != rank)


def check_same_pair_stays_in_order(rank: int, size: int) -> None:
    if rank > 1:
        return
    works = []
    tensors = [torch.full((index + 1,), float(index)) for index in range(20)]
    for tensor in tensors:
        if rank == 0:
            works.append(dist.isend(tensor, 1))
        else:
            tensor.zero_()
            works.append(dist.irecv(tensor, 0))
    for work in works:
        assert work is not None
        work.wait()
    assert all(tensor.eq(index).all() for index, tensor in enumerate(tensors))


def check_both_send_first(rank: int, size: int) -> None:
    """Neither waits until the other receives: many messages on their way in both directions, large ones among them."""
    if rank > 1:
        return
    counts = [16 << 20, 1, 1 << 18, 5]
    sends = [dist.isend(torch.full((count,), float(rank + index)), 1 - rank) for index, count in enumerate(counts)]
    for index, count in enumerate(counts):
        received = torch.empty(count)
        dist.recv(received, 1 - rank)
        assert received.eq(1 - rank + index).all()
    for work in sends:
        assert work is not None
        work.wait()


def check_layouts(rank: int, size: int) -> None:
    grid = torch.zeros(8, 8)
    if rank == 0:
        dist.send(torch.arange(16.0).view(4, 4).t(), 1)
    elif rank == 1:
        dist.recv(grid[::2, ::2], 0)
        assert grid[::2, ::2].eq(torch.arange(16.0).view(4, 4).t()).all()
        assert grid[1::2].eq(0).all()


def check_objects(rank: int, size: int) -> None:
    if rank == 0:
        dist.send_object_list(["text", {"key": 1}], 1)
    elif rank == 1:
        received = [None, None]
        dist.recv_object_list(received, 0)
        assert received == ["text", {"key": 1}]


def check_between_collectives(rank: int, size: int) -> None:
    for step in range(10):
        tensor = torch.ones(100)
        reduced = dist.all_reduce(tensor, async_op=True)
        message = torch.full((10,), float(step))
        work = dist.isend(message, (rank + 1) % size)
        received = torch.zeros(10)
        dist.recv(received, (rank - 1) % size)
        assert received.eq(step).all() and work is not None and reduced is not None
        work.wait()
        reduced.wait()
        assert tensor.eq(size).all()


def check_in_subgroup(rank: int, size: int) -> None:
    group = dist.new_group([0, size - 1])
    if rank == size - 1:
        dist.send(torch.tensor([5]), 0, group=group)
    elif rank == 0:
        received = torch.tensor([0])
        assert dist.recv(received, group=group) == size - 1
        assert received.item() == 5


def check_futures_run_callbacks_though_nobody_waits(rank: int, size: int) -> None:
    if rank == 0:
        heard = threading.Event()
        received = torch.zeros(3)
        work = dist.irecv(received, 1)
        assert work is not None
        work.get_future().then(lambda _: heard.set())
        dist.send(torch.zeros(1), 1)
        assert heard.wait(60)
        assert received.eq(1).all()
    elif rank == 1:
        dist.recv(torch.zeros(1), 0)
        dist.send(torch.ones(3), 0)


def check_dropped_messages_are_carried_out(rank: int, size: int) -> None:
    count = 1 << 20
    if rank == 0:
        small, large, last = torch.zeros(3), torch.zeros(count), torch.zeros(1)
        dist.irecv(small, 1)
        dist.irecv(large, 1)
        dist.isend(torch.full((count,), 2.0), 1)
        dist.recv(last, 1)
        assert small.eq(1).all() and large.eq(2).all()
    elif rank == 1:
        received = torch.zeros(count)
        dist.isend(torch.ones(3), 0)
        dist.send(torch.full((count,), 2.0), 0)
        dist.recv(received, 0)
        dist.send(torch.ones(1), 0)
        assert received.eq(2).all()


CHECKS = [value for name, value in sorted(globals().items()) if name.startswith("check_")]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__.removeprefix("check_"))
@pytest.mark.parametrize("size", [2, 3])
def test_point_to_point(ranks: Ranks, check: Callable[..., None], size: int) -> None:
    ranks(check, size)
