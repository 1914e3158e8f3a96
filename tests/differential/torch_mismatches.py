"""Calls of which one rank makes another than the others of its group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def _reduced(tensor: Tensor, op: str = "SUM", wait: bool = False) -> Callable[[Any, int], Any]:
    def call(group: Any, size: int) -> Any:
        work = dist.all_reduce(tensor.clone(), getattr(dist.ReduceOp, op), group, async_op=wait)
        return work.wait() if work is not None else None

    return call


def _sent(count: int, root: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.broadcast(torch.ones(count), root, group)


def _gathered(count: int, dtype: torch.dtype = torch.float32) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.all_gather(
        [torch.ones(count, dtype=dtype) for _ in range(size)], torch.ones(count, dtype=dtype), group
    )


def _scattered(count: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.reduce_scatter(
        torch.ones(count), [torch.ones(count) for _ in range(size)], group=group
    )


def _exchanged(count: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.all_to_all_single(torch.ones(count * size), torch.ones(count * size), group=group)


def _passed_on(count: int, dtype: torch.dtype = torch.float32) -> Callable[[Any, int], Any]:
    """A message of this dtype to the next rank, which expects as many bytes of float32, or another count of them."""
    expected = 5 if count < 1000 else count

    def call(group: Any, size: int) -> None:
        rank = dist.get_rank(group)
        sent: Any = dist.isend(torch.ones(count, dtype=dtype), (rank + 1) % size, group)
        dist.recv(torch.empty(expected), (rank - 1) % size, group)
        sent.wait()

    return call


def _reduced_to(root: int) -> Callable[[Any, int], Any]:
    return lambda group, size: dist.reduce(torch.ones(5), root, group=group)


WRONG: list[tuple[Callable[[Any, int], Any], Callable[[Any, int], Any]]] = [
    (_passed_on(5), _passed_on(5, torch.int32)),
    (_passed_on(40_000), _passed_on(40_000, torch.int32)),
    (_passed_on(5), _passed_on(10, torch.bfloat16)),
    (_passed_on(5), _passed_on(6)),
    (_reduced(torch.ones(5)), _reduced(torch.ones(6))),
    (_reduced(torch.ones(50_000)), _reduced(torch.ones(40_000))),
    (_reduced(torch.ones(5)), _reduced(torch.ones(5).double())),
    (_reduced(torch.ones(6)), _reduced(torch.ones(3).double())),
    (_reduced(torch.ones(5)), _reduced(torch.ones(5), "MAX")),
    (_reduced(torch.ones(5), wait=True), _reduced(torch.ones(6), wait=True)),
    (_reduced(torch.ones(5)), _sent(5, 0)),
    (_reduced(torch.ones(5)), lambda group, size: dist.barrier(group)),
    (_sent(5, 0), _sent(6, 0)),
    (_sent(5, 0), _sent(5, 1)),
    (_sent(50_000, 1), _sent(50_000, 0)),
    (_reduced_to(0), _reduced_to(1)),
    (_gathered(4), _gathered(5)),
    (_gathered(4), _gathered(4, torch.float64)),
    (_gathered(4), _reduced(torch.ones(4))),
    (_scattered(4), _scattered(5)),
    (_exchanged(4), _exchanged(5)),
    (_exchanged(4), _gathered(4)),
]
"""What the usual ranks call, and what the odd one does."""
