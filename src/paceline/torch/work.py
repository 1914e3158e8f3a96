"""The objects that collectives return, to wait for, with a future of the result tensors."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from threading import Lock

import torch.distributed as dist
from torch import Tensor
from torch.futures import Future, collect_all

from paceline._engine import Operation
from paceline.errors import CommunicationError
from paceline.group.host import Host
from paceline.torch import builtin_hooks
from paceline.torch.abandoned import Abandoned
from paceline.torch.backward import BackwardWaits
from paceline.torch.futures import CollectiveFuture
from paceline.torch.opaque import opaque
from paceline.torch.staging import Copies, copy_back

_GROUP_TIMEOUT = timedelta(0)
_SMALL = 64
"""Bytes of results that are kept for those who hold nothing but the C++ half of a work, as DDP's reducer of a count."""


@opaque
class CompletedWork(dist.Work):
    """Work that was done before the call returned."""

    def __init__(self, results: Sequence[Tensor] = ()) -> None:
        super().__init__()
        self._results = list(results)

    def wait(self, timeout: timedelta = _GROUP_TIMEOUT) -> bool:
        """Return True at once."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

    def is_completed(self) -> bool:
        """Return True."""
        return True

    def is_success(self) -> bool:
        """Return True."""
        return True

    def exception(self) -> None:
        """Return None."""
        return

    def result(self) -> list[Tensor]:
        """The tensors that hold the results."""
        return self._results

    def get_future(self) -> Future[list[Tensor]]:
        """A future of the result tensors, which is complete."""
        future: CollectiveFuture[list[Tensor]] = CollectiveFuture()
        future.complete(self._results)
        return future


DONE = CompletedWork()
"""The work of every blocking call: nobody asks it for results, and making one costs as much as a message."""


@opaque
class PendingWork(dist.Work):
    """An operation of the engine in flight. It keeps its tensors alive to the end, and the runtime keeps it alive."""

    def __init__(
        self,
        operation: Operation,
        results: Sequence[Tensor],
        copies: Copies,
        keep: Sequence[Tensor],
        backward: BackwardWaits,
    ) -> None:
        super().__init__()
        self.operation = operation
        self._backward = backward
        self._awaited = False  # whether the future was taken in a backward pass
        self._results = list(results)
        self._copies = copies
        self._keep: object = keep
        self._finished = False
        self._error: Exception | None = None
        self._future: CollectiveFuture[list[Tensor]] | None = None
        self._lock = Lock()

    def wait(self, timeout: timedelta = _GROUP_TIMEOUT) -> bool:
        """Make progress in this thread until the operation is over, and return True.

        Raises PeerLost, Mismatch, Timeout or Aborted if it failed, at this and every later call.
        """
        if not self._finished:
            try:
                self.operation.wait(timeout.total_seconds() if timeout > _GROUP_TIMEOUT else -1.0)
            except CommunicationError:  # what the handler of a signal raises comes out of this call
                if not self.operation.done():
                    raise
            self.finish()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until it is over, as `wait` does."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the operation is over, well or not, without waiting."""
        if not self._finished and self.operation.done():
            self.finish()
        return self._finished

    def is_success(self) -> bool:
        """Return whether the operation is over and went well, without waiting."""
        return self.is_completed() and self._error is None

    def exception(self) -> Exception | None:
        """The error with which it failed; None if there is none."""
        return self._error

    def result(self) -> list[Tensor]:
        """The tensors that hold the results."""
        return self._results

    def source_rank(self) -> int:
        """The rank whose message a finished receive took."""
        return int(self.operation.source)

    _source_rank = source_rank

    def get_future(self) -> Future[list[Tensor]]:
        """A future of the result tensors, which is completed whether or not anybody waits."""
        if self._results and builtin_hooks.reads(self._results):
            self.wait()
            return builtin_hooks.complete(self._results)
        with self._lock:
            settle = self._future is None and self._finished
            if self._future is None:
                self._future = CollectiveFuture(self._backward.outside)
                self._awaited = not self._finished and self._backward.begin(self.operation)
            future = self._future
        if settle:
            self._settle(future)
        return future

    def finish(self, *_: object) -> None:
        """Take over the result of the operation, which is over. The first that learns of it calls this: a waiter or the
        runtime.
        """
        with self._lock:
            if self._finished:
                return
            try:
                self.operation.wait(-1.0)
                copy_back(self._copies)
            except Exception as error:
                self._error = error
            self._copies = []
            self._keep = None
            self._finished = True
            future = self._future
        if self._awaited:
            self._backward.end()
        if future is not None:
            self._settle(future)

    def __del__(self) -> None:
        if self._future is None:
            self._backward.dropped.append(self)
            small = sum(tensor.nbytes for tensor in self._results) <= _SMALL
            self._results = [tensor.detach().clone() for tensor in self._results] if small else []

    def _settle(self, future: CollectiveFuture[list[Tensor]]) -> None:
        if self._error is None:
            future.complete(self._results)
        else:
            future.fail(self._error, self._results)


@opaque
class MessageWork(PendingWork):
    """A message in flight. The engine tells nobody of its end before a future is asked for, which wakes no thread."""

    def __init__(self, operation: Operation, tensor: Tensor, backward: BackwardWaits, host: Host) -> None:
        super().__init__(operation, [tensor], [], [tensor], backward)
        self._host = host
        self._told = False

    def __del__(self) -> None:
        if not self._finished and not self._told:
            self._host.dropped(Abandoned(self.operation, self._results))

    def get_future(self) -> Future[list[Tensor]]:
        """A future of the tensor, which is completed whether or not anybody waits."""
        future = super().get_future()
        with self._lock:
            told, self._told = self._told, True
        if not told and not self._finished:
            if self.operation.notify():
                self._host.notify(self.operation.id, self.finish)
            else:
                self.finish()
        return future


@opaque
class ReceivedWork(CompletedWork):
    """The work of a receive that found its message here."""

    def __init__(self, tensor: Tensor, source: int) -> None:
        super().__init__([tensor])
        self._source = source

    def source_rank(self) -> int:
        """The rank whose message it took."""
        return self._source

    _source_rank = source_rank


@opaque
class WorkGroup(dist.Work):
    """Several works that are waited for as one."""

    def __init__(self, works: Sequence[dist.Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = _GROUP_TIMEOUT) -> bool:
        """Return True once all works are over. Raises PeerLost, Mismatch, Timeout or Aborted if one of them failed."""
        for work in self._works:
            work.wait(timeout)
        return True

    def synchronize(self) -> None:
        """Wait until all works are over, as `wait` does."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether all works are over, well or not, without waiting."""
        return all(work.is_completed() for work in self._works)

    def is_success(self) -> bool:
        """Return whether all works are over and went well, without waiting."""
        return all(work.is_success() for work in self._works)

    def exception(self) -> Exception | None:
        """The first error among those of the works; None if there is none."""
        return next((error for work in self._works if (error := work.exception()) is not None), None)

    def result(self) -> list[Tensor]:
        """The tensors that hold the results of all works, in their order."""
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self) -> Future[list[Tensor]]:
        """A future of the result tensors of all works, in their order."""
        parts = collect_all([work.get_future() for work in self._works])
        return parts.then(lambda done: [tensor for part in done.value() for tensor in part.value()])
