"""Turns a call into torch's Work: at once, in flight, or gathered in a coalescing window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeGuard

import torch
import torch.distributed as dist
from torch import Tensor

from paceline import _engine
from paceline.errors import CommunicationError
from paceline.runtime.runtime import Runtime
from paceline.torch import checks, cuda
from paceline.torch.accelerator import Accelerator
from paceline.torch.backward import BackwardWaits
from paceline.torch.device_work import DeviceWork
from paceline.torch.dispatched import Dispatched, modes
from paceline.torch.futures import callbacks
from paceline.torch.opaque import opaque
from paceline.torch.staging import Copies, copy_back, usable
from paceline.torch.work import DONE, CompletedWork, MessageWork, PendingWork, WorkGroup

BLOCKING, NOTIFY = _engine.BLOCKING, _engine.NOTIFY
_ZERO = timedelta(0)


@opaque
class Starting(Accelerator, Dispatched):
    """Starts operations for all collectives."""

    _group: _engine.Group
    _rank: int
    _size: int
    _runtime: Runtime
    _notify: Callable[[int, Callable[[], None]], None]
    _window: list[dist.Work] | None
    _backward: BackwardWaits

    def _blocks(self, options: object) -> TypeGuard[checks.Options]:
        """Return whether the call only has to be over on return, in the group itself and within the group's timeout."""
        return (
            not getattr(options, "asyncOp", True)
            and options.timeout <= _ZERO  # type: ignore[attr-defined]  # what has asyncOp has a timeout
            and self._window is None
            and callbacks.depth == 0
        )

    def _start(
        self,
        call: _engine.CollectiveCall,
        options: object,
        results: Sequence[Tensor],
        copies: Copies,
        keep: Sequence[Tensor] = (),
    ) -> dist.Work:
        """Carry out a call now or only start it, as `options` (torch's; None means start) asks for.

        keep: the memory that the call speaks of; if it is a device's, the call is handed to that, and there are no
        copies.
        """
        if keep and not keep[0].is_cpu:
            return self._hand(call, options, results, keep)
        if self._blocks(options):
            self._group.start(call, BLOCKING)
            copy_back(copies)
            return DONE
        if callbacks.depth:
            self._callback_group().start(call, BLOCKING)
            copy_back(copies)
            return CompletedWork(results)
        operation = self._group.start(call, NOTIFY)
        assert operation is not None
        work = PendingWork(operation, results, copies, keep, self._backward)
        self._notify(work.operation.id, work.finish)
        if self._window is not None:
            self._window.append(work)
        elif not checks.is_async(options) and (timeout := checks.timeout_of(options)) is not None:
            work.wait(timeout)
        return work

    def refuse(self, collective: str, error: Exception) -> None:
        """Tell the other ranks, which may wait in this collective, that this one's call has raised.

        Calls in callbacks have no number among the group's, and those in a dispatch mode need not come on all ranks.
        """
        if not isinstance(error, CommunicationError) and not callbacks.depth and not modes():
            self._group.refuse(collective, f"{type(error).__name__}: {error}")

    def _stay(self, tensors: Sequence[Tensor]) -> bool:
        """Return whether a collective of these tensors is handed to their device, which the engine serves.

        The device must be able to use their memory as it is; else they go through the host.
        """
        return (
            not tensors[0].is_cpu
            and not callbacks.depth
            and all(tensor.layout == torch.strided and usable(tensor) for tensor in tensors)
        )

    def _hand(
        self,
        call: _engine.CollectiveCall,
        options: object,
        results: Sequence[Tensor],
        memory: Sequence[Tensor],
    ) -> dist.Work:
        """Hand a call to the device of `memory`, whose current stream it comes after."""
        group, stream = self._on_device(memory), cuda.stream(memory[0].device)
        work = DeviceWork(group.start(call, stream), results, memory, self._runtime)
        if self._window is None and not checks.is_async(options):
            work.wait(checks.timeout_of(options) or _ZERO)
        return self._in_window(work)

    def _message(self, operation: _engine.Operation, tensor: Tensor) -> dist.Work:
        """The work of a message that was started in mode ASYNC with the memory of `tensor` itself."""
        return MessageWork(operation, tensor, self._backward, self._runtime)

    def _in_window(self, work: dist.Work) -> dist.Work:
        """Return `work`, and gather it if a coalescing window is open."""
        if self._window is not None:
            self._window.append(work)
        return work

    def _callback_group(self) -> _engine.Group:
        """A second group of the same ranks, for what is called in the callbacks of futures.

        Callbacks run when an operation has finished, which is not at the same point of every rank's program: in the
        first group their collectives would meet others. They must not wait for the thread that runs them, either, so
        they always block.
        """
        return self._twin("callbacks")

    def _together(self, works: Sequence[dist.Work]) -> dist.Work:
        """One work for several."""
        if all(work is DONE for work in works):
            return DONE
        return works[0] if len(works) == 1 else WorkGroup(works)

    def _start_coalescing(self, device: object = None) -> None:
        """Only start operations, without blocking, until `_end_coalescing`."""
        self._window = []

    def _end_coalescing(self, device: object = None) -> dist.Work:
        works, self._window = self._window or [], None
        return self._together(works) if works else CompletedWork()

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing
