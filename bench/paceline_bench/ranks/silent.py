"""A process group that does nothing, to measure what DDP costs without communication."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch._C import _distributed_c10d as c10d
from torch.futures import Future

_Base: Any = dist.ProcessGroup
_work_from_future: Any = getattr(c10d, "_create_work_from_future")  # noqa: B009  # its stub lacks it


class SilentProcessGroup(_Base):  # type: ignore[misc]
    """Every collective is done at once; each rank keeps its own data, as if all others had the same."""

    def getBackendName(self) -> str:
        """Return the name that torch shows."""
        return "silent"

    def allreduce(self, tensors: list[Tensor], options: Any = None) -> Any:
        """Leave the tensors unchanged."""
        return _done(tensors)

    def broadcast(self, tensors: list[Tensor], options: Any = None) -> Any:
        """Leave the tensors unchanged."""
        return _done(tensors)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], options: Any = None) -> Any:
        """Copy each input into all of its outputs."""
        for received, sent in zip(outputs, inputs, strict=True):
            for output in received:
                output.copy_(sent)
        return _done(outputs)


def _done(value: object) -> Any:
    future: Future[Any] = Future()
    future.set_result(value)
    return _work_from_future(future)
