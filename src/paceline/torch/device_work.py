"""The object that a collective on a device returns."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import torch.distributed as dist
from torch import Tensor
from torch.futures import Future

from paceline._engine import DeviceOperation
from paceline.group.host import Host
from paceline.torch import builtin_hooks, cuda
from paceline.torch.abandoned import Abandoned
from paceline.torch.opaque import opaque

_GROUP_TIMEOUT = timedelta(0)


@opaque
class DeviceWork(dist.Work):
    """A collective that was handed to a device. Streams wait for it, as for NCCL's; the host does not.

    It keeps its tensors, `memory`, alive to the end; they are on one device. results: what holds the results.
    """

    def __init__(
        self, operation: DeviceOperation, results: Sequence[Tensor], memory: Sequence[Tensor], host: Host
    ) -> None:
        super().__init__()
        self._operation = operation
        self._results = list(results)
        self._memory = memory
        self._device = memory[0].device
        self._host = host

    def __del__(self) -> None:
        if not self._operation.done():
            self._host.dropped(Abandoned(self._operation, self._memory))

    def wait(self, timeout: timedelta = _GROUP_TIMEOUT) -> bool:
        """Let the current stream wait for it, and the host too if a timeout is given; return True.

        Raises PeerLost, Mismatch, Timeout or Aborted if it is known by then that it failed; the stream waits even so.
        """
        stream = cuda.stream(self._device)
        if timeout > _GROUP_TIMEOUT:
            self._operation.wait(timeout.total_seconds(), stream)
        self._operation.order_before(stream)
        return True

    def synchronize(self) -> None:
        """Let the current stream wait for it, as `wait` does."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the device is through with the operation, well or not, without waiting."""
        return self._operation.done()

    def is_success(self) -> bool:
        """Return whether the operation is over and went well, without waiting."""
        return self.is_completed() and self.exception() is None

    def exception(self) -> Exception | None:
        """The error with which it failed; None if there is none, or none is known yet."""
        if self._operation.done():
            try:
                self._operation.wait(0.0)
            except Exception as error:
                return error
        return None

    def result(self) -> list[Tensor]:
        """The tensors that hold the results."""
        return self._results

    def get_future(self) -> Future[list[Tensor]]:
        """A future of the results. It is complete; the streams of those who read it wait for the device."""
        if builtin_hooks.reads(self._results):
            return builtin_hooks.complete(self._results)
        return cuda.future(self._device, self._results, self._operation.order_before)
