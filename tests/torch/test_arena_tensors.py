"""paceline.torch.empty: tensors like any other, which collectives combine without a copy."""

from __future__ import annotations

import gc

import pytest
import torch
import torch.distributed as dist
from torch_ranks import Ranks

import paceline.torch
from paceline.process.current import runtime

COUNT = 100_000
ALGORITHM = 7
"""Where the event ring's rows say it."""


def last_algorithm() -> str:
    return str(runtime().events()[-1][ALGORITHM])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64, torch.int64])
@pytest.mark.parametrize("size", [(0,), (3,), (2, 0, 3), ((2, 3),), ([4, 1],), (torch.Size([]),)])
def test_shapes_and_dtypes_are_those_of_torch(size: tuple[int, ...], dtype: torch.dtype) -> None:
    ours, theirs = paceline.torch.empty(*size, dtype=dtype), torch.empty(*size, dtype=dtype)
    assert (ours.shape, ours.stride(), ours.dtype) == (theirs.shape, theirs.stride(), theirs.dtype)
    assert ours.is_leaf and not ours._is_view()
    assert ours.fill_(1).eq(1).all()


def test_the_default_dtype_is_torchs() -> None:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert paceline.torch.empty(1).dtype == torch.float64
    finally:
        torch.set_default_dtype(before)


def test_memory_comes_back_with_the_last_reference() -> None:
    gc.collect()
    before = runtime()._memory.arena.allocated
    tensor = paceline.torch.empty(1000, 1000)
    part = tensor[3:5]
    del tensor
    assert runtime()._memory.arena.allocated > before
    del part
    assert runtime()._memory.arena.allocated == before


def check_in_place(rank: int, size: int) -> None:
    total = sum(range(1, size + 1))
    for dtype in (torch.float32, torch.bfloat16, torch.int32):
        tensor = paceline.torch.empty(COUNT, 2, dtype=dtype).fill_(rank + 1)
        dist.all_reduce(tensor)
        assert last_algorithm() == "in_place" and tensor.eq(total).all()
    tensor.fill_(rank + 1)
    dist.all_reduce(tensor[7 : COUNT // 2])
    assert last_algorithm() == "in_place"
    assert tensor[7 : COUNT // 2].eq(total).all()
    assert tensor[:7].eq(rank + 1).all() and tensor[COUNT // 2 :].eq(rank + 1).all()
    mixed = tensor if rank == 0 else tensor.clone()
    dist.all_reduce(mixed, dist.ReduceOp.MAX)
    assert last_algorithm() != "in_place"
    assert mixed[7 : COUNT // 2].eq(total).all() and mixed[:7].eq(size).all()


def check_autograd(rank: int, size: int) -> None:
    weight = paceline.torch.empty(COUNT).fill_(rank + 1).requires_grad_()
    (weight * weight).sum().backward()
    assert weight.grad is not None and weight.grad.eq(2 * (rank + 1)).all()
    with torch.no_grad():
        weight -= weight.grad
    dist.all_reduce(weight.detach())
    assert last_algorithm() == "in_place" and weight.eq(-sum(range(1, size + 1))).all()


@pytest.mark.parametrize("check", [check_in_place, check_autograd])
def test_collectives(ranks: Ranks, check: object) -> None:
    ranks(check, 3)  # type: ignore[arg-type]
