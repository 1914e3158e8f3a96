"""Exchanging gradients while `backward` goes on: each bucket as soon as its gradients and those before it are there."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch.distributed as dist
from torch import Tensor
from torch.autograd import Variable
from torch.utils.hooks import RemovableHandle

from paceline.torch.bucket import Bucket, require_dense
from paceline.torch.channel import channel_of, leave, refuse_next

_exchanges: weakref.WeakSet[BackwardExchange] = weakref.WeakSet()
"""Those that exchange gradients now."""


class BackwardExchange:
    """Makes every `backward` exchange the gradients in buckets with the ranks of `group`, and end when that is over.

    The parameters' hooks keep it alive. owner: the name of the class that makes it, and name: which of its parameters
    one is, for errors. begins: called when a pass begins.

    `backward` raises what the exchange raises, and RuntimeError after a pass that did not finish.
    """

    def __init__(
        self,
        group: dist.ProcessGroup | None,
        owner: str,
        name: Callable[[Tensor], str],
        begins: Callable[[], None] = lambda: None,
    ) -> None:
        self.channel = channel_of(group)
        """The ranks, where no other exchange is."""
        self._owner = owner
        self._name = name
        self._begins = begins
        self._buckets: list[Bucket] = []
        self._works: list[dist.Work] = []  # of the pass under way, or of one that did not finish
        self._leave = weakref.finalize(self, leave, self.channel, group, self._works)
        self._leave.atexit = False
        self._hooks: list[list[RemovableHandle]] = []  # by bucket and slot
        self._ending: weakref.ref[_Ending] | None = None  # of the pass under way
        self._paused = False

    def extend(self, buckets: Sequence[Bucket]) -> None:
        """From here on exchange these, too, after those before.

        An earlier exchange ends if they have all of its parameters. Raises ValueError if they have only some.
        """
        self._take_over({id(one) for bucket in buckets for one in bucket.parameters})
        _exchanges.add(self)
        for index, bucket in enumerate(buckets, len(self._buckets)):
            self._hooks.append([self._hook(index, slot, one) for slot, one in enumerate(bucket.parameters)])
        self._buckets += buckets

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Each `backward` in this context exchanges nothing."""
        before, self._paused = self._paused, True
        try:
            yield
        finally:
            self._paused = before

    def close(self) -> None:
        """From here on `backward` exchanges nothing."""
        for hooks in self._hooks:
            for hook in hooks:
                hook.remove()
        _exchanges.discard(self)
        self._leave()

    def _take_over(self, parameters: set[int]) -> None:
        for other in [one for one in _exchanges if one is not self]:
            theirs = {id(one) for bucket in other._buckets for one in bucket.parameters}
            if theirs and theirs <= parameters:
                other.close()
            elif theirs & parameters:
                raise ValueError(
                    f"a {other._owner} exchanges gradients of some of these parameters together with others: close() "
                    "it before another one exchanges them"
                )

    def _hook(self, index: int, slot: int, parameter: Tensor) -> RemovableHandle:
        hook = partial(self._accumulated, index, slot)
        found: RemovableHandle = parameter.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
        return found

    def _is_last(self, index: int, slot: int, parameter: Tensor) -> bool:
        """Return whether no hook of the user's changes the gradient after ours; else make ours the last from now on."""
        hook = self._hooks[index][slot]
        hooks: dict[int, object] = parameter._post_accumulate_grad_hooks
        if next(reversed(hooks)) == hook.id:
            return True
        hook.remove()
        self._hooks[index][slot] = self._hook(index, slot, parameter)
        return False

    def _accumulated(self, index: int, slot: int, parameter: Tensor) -> None:
        bucket = self._buckets[index]
        require_dense(parameter, self._name)
        graph = parameter.grad is not None and parameter.grad.requires_grad
        if self._paused:
            if not graph:
                bucket.accumulated(slot, parameter)
            return
        if graph:
            raise RuntimeError(
                "a gradient that has a graph of its own cannot be exchanged: leave out backward(create_graph=True), or "
                "call it in no_sync() and set the gradients to None after it"
            )
        if self._ending is None:
            self._begin()
        elif self._ending() is None:
            raise RuntimeError(
                "a backward pass before this one raised an exception, so ranks may differ: "
                f"make a new {self._owner} on every rank, or end the job"
            )
        if index < len(self._works):
            raise RuntimeError(
                f"a parameter of shape {tuple(parameter.shape)} got a second gradient in one backward pass, when the "
                "first had been sent: with torch.utils.checkpoint, pass use_reentrant=False"
            )
        bucket.accumulated(slot, parameter)
        bucket.arrived(slot)
        if not self._is_last(index, slot, parameter):
            return  # the next hook, or the end of the pass, starts what is complete
        while len(self._works) < len(self._buckets) and self._buckets[len(self._works)].complete:
            self._start_next()

    def _begin(self) -> None:
        self._begins()
        for bucket in self._buckets:
            bucket.begin()
        self._works.clear()
        ending = _Ending(self)
        self._ending = weakref.ref(ending)
        Variable._execution_engine.queue_callback(ending)

    def _start_next(self) -> None:
        self._works.append(self._buckets[len(self._works)].start(self.channel))

    def _start_rest(self) -> None:
        for bucket in self._buckets[len(self._works) :]:
            bucket.close()
            self._start_next()

    def _finish(self) -> None:
        for bucket, work in zip(self._buckets, self._works, strict=True):
            work.wait()
            bucket.settle()
        self._works.clear()
        self._ending = None


class _Ending:
    """Called at the end of a backward pass. If that raises, it vanishes uncalled, as nobody but autograd holds it, and
    the other ranks, which may wait for the rest of this one's gradients, are told.

    A pass may end for several exchanges, in an order that ranks do not share: all start what is left before any waits.
    """

    def __init__(self, exchange: BackwardExchange) -> None:
        self._exchange = exchange
        self._started = False

    def __del__(self) -> None:
        if not self._started:
            refuse_next(self._exchange.channel, RuntimeError("the backward pass raised an exception there"))

    def __call__(self) -> None:
        self._exchange._start_rest()
        self._started = True
        Variable._execution_engine.queue_callback(self._finish)

    def _finish(self) -> None:
        self._exchange._finish()
