"""Callbacks of works: what they do, or wait for, holds up no rank."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks

COUNTS = (8, 1 << 16, 1 << 18, 8)


def _reduce_and_tell(pipe: Path) -> None:
    """What rank 1 does, once rank 0 has opened the pipe: all that it needs rank 0 for."""
    with pipe.open("wb", buffering=0) as done:
        try:
            for count in COUNTS:
                tensor = torch.ones(count)
                dist.all_reduce(tensor)
                assert (tensor == 2).all()
        finally:
            done.write(b"x")


def _read_with_gil(descriptor: int) -> None:
    assert ctypes.PyDLL(None).read(descriptor, ctypes.create_string_buffer(1), 1) == 1


def _waits_for_the_other(rank: int, size: int, path: str, slow: bool) -> None:
    pipe = Path(path)
    if rank == 0:
        os.mkfifo(pipe)
    dist.barrier()
    if rank == 1:
        _reduce_and_tell(pipe)
        dist.barrier()
        return
    ended: list[int] = []
    opened, over = threading.Event(), threading.Event()
    tensors = [torch.ones(count) for count in COUNTS]
    futures = [dist.all_reduce(tensor, async_op=True).get_future() for tensor in tensors]

    def note(number: int) -> Callable[[object], None]:
        return lambda _: ended.append(number)

    def wait(_: object) -> None:
        opened.wait()
        other.read(1)
        over.set()

    if slow:
        futures[0].then(wait)
    told = [future.then(note(number)) for number, future in enumerate(futures)]
    with pipe.open("rb", buffering=0) as other:
        opened.set()
        if slow:
            over.wait()
        else:
            _read_with_gil(other.fileno())
    for each in told:
        each.wait()
    assert ended == list(range(len(COUNTS)))
    assert all((tensor == size).all() for tensor in tensors)
    dist.barrier()


@pytest.mark.parametrize("slow", [False, True], ids=["gil", "slow"])
def test_callbacks_hold_up_no_rank(ranks: Ranks, tmp_path: Path, slow: bool) -> None:
    """While one thread holds the GIL, or a callback waits, operations that somebody is to be told of go on."""
    ranks(_waits_for_the_other, 2, path=str(tmp_path / "pipe"), slow=slow)
