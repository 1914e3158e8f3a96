"""Moves DistributedDataParallel's own buckets into the arena."""

# No `from __future__ import annotations`: torch compares the hook's annotations with the types themselves.
from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from paceline.torch import sparse
from paceline.torch.memory import empty

_MOVED = "_paceline_moved"


def arena_hook(group: dist.ProcessGroup | None, bucket: dist.GradBucket) -> Future[Tensor]:
    """A communication hook for DDP that reduces its buckets in place, without a copy.

        model = DistributedDataParallel(module, gradient_as_bucket_view=True)
        model.register_comm_hook(None, paceline.torch.arena_hook)

    The state is the process group, None for all ranks. A bucket moves into the arena in the first step that gives each
    of its parameters a gradient; before that, or without `gradient_as_bucket_view=True`, it is reduced with a copy, as
    sparse gradients always are.
    """
    buffer = bucket.buffer()
    if buffer.is_sparse:
        return _tensor_of(sparse.mean(group, buffer))
    gradients = [parameter.grad for parameter in bucket.parameters()]
    inside = [gradient is not None and _lies_in(gradient, buffer) for gradient in gradients]
    if not hasattr(buffer, _MOVED):
        if all(inside):
            _move(buffer, gradients)  # type: ignore[arg-type]
    elif not all(here or gradient is None for here, gradient in zip(inside, gradients, strict=True)):
        raise RuntimeError(f"DDP's gradients left its buckets: torch {torch.__version__} does not suit arena_hook")
    work = dist.all_reduce(buffer, dist.ReduceOp.AVG, group, async_op=True)
    return _tensor_of(work)


def _tensor_of(work: dist.Work) -> Future[Tensor]:
    result: Future[Tensor] = work.get_future().then(lambda done: done.value()[0])
    return result


def _lies_in(gradient: Tensor, buffer: Tensor) -> bool:
    return 0 <= gradient.data_ptr() - buffer.data_ptr() <= buffer.nbytes - gradient.nbytes


def _move(buffer: Tensor, gradients: Sequence[Tensor]) -> None:
    # DDP's bucket and its views are these very tensors, so its reducer sees what is done to them here.
    begin, width = buffer.data_ptr(), buffer.element_size()
    memory = empty(buffer.numel(), dtype=buffer.dtype).copy_(buffer)
    for gradient in gradients:
        offset = (gradient.data_ptr() - begin) // width
        gradient.data = memory.as_strided(gradient.shape, gradient.stride(), offset)
    buffer.data = memory
    setattr(buffer, _MOVED, True)
