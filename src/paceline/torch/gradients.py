"""Data-parallel training without a wrapper: gradients lie in arena memory, where they are reduced in place."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd import Variable

from paceline.torch.bucket import Bucket, assign
from paceline.torch.freed_memory import keep_freed_memory

BUCKET_BYTES = 25 << 20


class GradientBuckets:
    """Makes every `backward` on `module` end with the mean gradients over the ranks of `group` (default: all).

        buckets = paceline.torch.GradientBuckets(model)
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

    Each `p.grad` is a view of a bucket in the arena. A bucket is reduced while `backward` goes on, as soon as its
    gradients and those before it are there; buckets begin with the last parameters, and are full once they hold
    `bucket_bytes`. The constructor is a collective: parameters and buffers become rank 0's.

    A parameter without a gradient on some ranks counts as zero there and then has the mean everywhere; where no rank
    has one, it stays as it was. Buffers are not exchanged again, and on each rank `backward` must reach some parameter.

    Raises ValueError if a parameter that requires a gradient is not on the CPU, or if there is none; `backward` raises
    what the collectives raise, TypeError for sparse gradients, and RuntimeError after a pass that did not finish.
    """

    def __init__(
        self, module: nn.Module, group: dist.ProcessGroup | None = None, *, bucket_bytes: int = BUCKET_BYTES
    ) -> None:
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not parameters:
            raise ValueError("the module has no parameter that requires a gradient")
        if elsewhere := next((parameter.device for parameter in parameters if not parameter.is_cpu), None):
            raise ValueError(f"gradients in the arena are for parameters on the CPU, found one on {elsewhere}")
        keep_freed_memory(sum(parameter.nbytes for parameter in parameters))
        self._group = group
        members = assign(reversed(parameters), bucket_bytes)
        self._buckets = [Bucket(some) for some in members]
        self._works: list[dist.Work] = []
        self._ending: weakref.ref[_Ending] | None = None  # of the pass under way
        self._paused = False
        for tensor in (*module.parameters(), *module.buffers()):
            dist.broadcast(tensor.detach(), group=group, group_src=0)
        self._hooks = [
            parameter.register_post_accumulate_grad_hook(partial(self._accumulated, index, slot))  # type: ignore[no-untyped-call]
            for index, some in enumerate(members)
            for slot, parameter in enumerate(some)
        ]

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Each `backward` in this context only adds to this rank's gradients; the next one after it reduces them."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def close(self) -> None:
        """From here on `backward` reduces nothing. Gradients stay as they are."""
        for hook in self._hooks:
            hook.remove()

    def _accumulated(self, index: int, slot: int, parameter: Tensor) -> None:
        bucket = self._buckets[index]
        if self._paused:
            bucket.adopt(slot, parameter)
            return
        if self._ending is None:
            self._begin()
        elif self._ending() is None:
            raise RuntimeError(
                "a backward pass before this one raised an exception, so ranks may differ: "
                "make new GradientBuckets on every rank, or end the job"
            )
        if index < len(self._works):
            raise RuntimeError(
                f"a parameter of shape {tuple(parameter.shape)} got a second gradient in one backward pass, when the "
                "first had been sent: with torch.utils.checkpoint, pass use_reentrant=False"
            )
        bucket.adopt(slot, parameter)
        bucket.arrived(slot)
        while len(self._works) < len(self._buckets) and self._buckets[len(self._works)].complete:
            self._reduce_next()

    def _begin(self) -> None:
        for bucket in self._buckets:
            bucket.begin()
        self._works = []
        ending = _Ending(self)
        self._ending = weakref.ref(ending)
        Variable._execution_engine.queue_callback(ending)

    def _reduce_next(self) -> None:
        flat = self._buckets[len(self._works)].flat
        work = dist.all_reduce(flat, dist.ReduceOp.AVG, self._group, async_op=True)
        assert work is not None
        self._works.append(work)

    def _finish(self) -> None:
        for bucket in self._buckets[len(self._works) :]:
            bucket.close()
            self._reduce_next()
        for bucket, work in zip(self._buckets, self._works, strict=True):
            work.wait()
            bucket.settle()
        self._ending = None


class _Ending:
    """Called at the end of a backward pass. If that raises, it vanishes uncalled, as nobody but autograd holds it."""

    def __init__(self, buckets: GradientBuckets) -> None:
        self._buckets = buckets

    def __call__(self) -> None:
        self._buckets._finish()
