"""All-reduces sparse tensors: gathers the indices and values of all ranks, then adds up the values of each place."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor

from paceline.torch.checks import Reduction
from paceline.torch.work import CompletedWork


def all_reduce(group: dist.ProcessGroup, tensor: Tensor, reduce_op: Reduction) -> dist.Work:
    """Replace the COO `tensor` by the coalesced sum over the ranks, before it returns.

    Raises ValueError for another reduction than SUM, or if the ranks' shapes differ.
    """
    if hash(reduce_op) != hash(dist.ReduceOp.SUM):
        raise ValueError("paceline reduces sparse tensors with SUM only")
    mine = tensor.coalesce()
    shapes = _gather(group, torch.tensor([mine._nnz(), *mine.shape]))
    counts = [int(shape[0]) for shape in shapes]
    for rank, shape in enumerate(shapes):
        if not torch.equal(shape[1:], shapes[0][1:]):
            raise ValueError(
                f"sparse all_reduce needs one shape on all ranks, got {shapes[0][1:].tolist()} on rank 0 "
                f"and {shape[1:].tolist()} on rank {rank}"
            )
    indices = _gather(group, mine._indices().t(), counts)
    values = _gather(group, mine._values(), counts)
    total = torch.sparse_coo_tensor(
        torch.cat(indices).t(), torch.cat(values), mine.shape, check_invariants=False
    ).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
    return CompletedWork([tensor])


def mean(group: dist.ProcessGroup | None, tensor: Tensor) -> dist.Work:
    """Replace the COO `tensor` by the mean over the ranks, before it returns. group: None for all ranks."""
    tensor.div_(dist.get_world_size(group))
    work: dist.Work = dist.all_reduce(tensor, group=group, async_op=True)
    return work


def _gather(group: dist.ProcessGroup, tensor: Tensor, rows: list[int] | None = None) -> list[Tensor]:
    """The `tensor` of every rank. rows: the length of each rank's first dimension; None if they are equal."""
    lengths = rows if rows is not None else [tensor.shape[0]] * group.size()
    outputs = [tensor.new_empty((length, *tensor.shape[1:])) for length in lengths]
    group.allgather([outputs], [tensor.contiguous()]).wait()
    return outputs
