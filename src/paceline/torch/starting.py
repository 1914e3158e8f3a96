"""How an engine call becomes torch's Work: at once, in flight, or gathered in a coalescing window."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.distributed as dist
from torch import Tensor

from paceline import _engine
from paceline.torch import checks
from paceline.torch.accelerator import Accelerator
from paceline.torch.staging import Copies, copy_back
from paceline.torch.work import DONE, CompletedWork, PendingWork, WorkGroup

BLOCKING = 0
NOTIFY = 2


class Starting(Accelerator):
    """What all collectives share."""

    _group: _engine.Group
    _rank: int
    _size: int
    _notify: Callable[[int, Callable[..., None]], None]
    _window: list[dist.Work] | None

    def _start(
        self,
        call: Callable[..., Any],
        arguments: tuple[Any, ...],
        options: Any,
        results: Sequence[Tensor],
        copies: Copies,
        keep: Sequence[Tensor] = (),
    ) -> dist.Work:
        """Run `call` now or only start it, as `options` (torch's; None means start) asks for."""
        timeout = checks.timeout_of(options)
        asynchronous = checks.is_async(options)
        if not asynchronous and timeout is None and self._window is None:
            call(*arguments, BLOCKING)
            copy_back(copies)
            return DONE
        work = PendingWork(call(*arguments, NOTIFY), results, copies, keep)
        self._notify(work.operation.id, work.finish)
        if self._window is not None:
            self._window.append(work)
        elif not asynchronous and timeout is not None:
            work.wait(timeout)
        return work

    def _together(self, works: Sequence[dist.Work]) -> dist.Work:
        """Several works as one."""
        if all(work is DONE for work in works):
            return DONE
        return works[0] if len(works) == 1 else WorkGroup(works)

    def _start_coalescing(self, device: object = None) -> None:
        """From here to `_end_coalescing` nothing blocks: operations are only started."""
        self._window = []

    def _end_coalescing(self, device: object = None) -> dist.Work:
        works, self._window = self._window or [], None
        return self._together(works) if works else CompletedWork()

    start_coalescing = _start_coalescing
    end_coalescing = _end_coalescing
