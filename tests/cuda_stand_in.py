"""What stands for CUDA tensors: a library of the driver's name for a device, and a kind of CPU tensor, whose memory is
the library's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

STAND_IN = Path(__file__).parents[1] / "build" / "engine" / "double" / "libcuda.so.1"
CUDA = torch.device("cuda", 0)


class DeviceTensor(Tensor):
    """A tensor that says of itself that it lies on a device."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    __dlpack_c_exchange_api__ = None
    is_cpu = property(lambda self: False)
    device = property(lambda self: CUDA)


class Device:
    """The stand-in, in place of what `paceline.torch.cuda` asks torch for. limits: None for what groups measure."""

    def __init__(self, limits: tuple[int, int] | None = (8 << 10, 512 << 10)) -> None:
        from paceline import _engine
        from paceline.process.current import runtime
        from paceline.torch import cuda

        seam: Any = cuda
        self._driver = ctypes.CDLL(str(STAND_IN))
        self._driver.double_allocate.restype = ctypes.c_uint64
        self._driver.double_allocate.argtypes = (ctypes.c_size_t, ctypes.c_int)
        self._driver.double_calls.restype = ctypes.c_uint64
        runtime().devices = _engine.Devices(b"any image will do for the stand-in", limits)
        self.waits: list[int] = []
        self.refuses = False
        """Whether torch finds no memory for what comes of a collective, and for zeros."""

        def host_memory(like: Tensor) -> Tensor:
            self.finish()
            return torch.empty(like.shape, dtype=like.dtype)

        def future(_: torch.device, results: list[Tensor], order: Callable[[int], None]) -> Any:
            order(0)
            made: Any = torch.futures.Future()
            made.set_result(results)
            return made

        def copy(tensor: Tensor) -> Tensor:
            return self.tensor(self.host(tensor).contiguous())

        def empty(shape: Sequence[int], like: Tensor, on: int | None = None) -> Tensor:
            if on is not None and self.refuses:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return self.tensor(torch.zeros(shape, dtype=like.dtype))

        def zeros(count: int, device: torch.device) -> Tensor:
            return empty([count], torch.empty(0), 0)

        seam.stream = lambda device: 0
        seam.captures = lambda: False
        seam.aside = lambda device: nullcontext()
        seam.finish = lambda device: self.finish()
        seam.zeros = zeros
        seam.copy = copy
        seam.empty = empty
        seam.used_here = lambda tensor: tensor
        seam.host_memory = host_memory
        seam.future = future

    def tensor(self, values: Tensor) -> Tensor:
        """These values in the memory of the device."""
        address = self._driver.double_allocate(max(values.nbytes, 1), 2)
        memory = np.frombuffer(memoryview((ctypes.c_byte * values.nbytes).from_address(address)), np.uint8)
        there = torch.from_numpy(memory).view(values.dtype).view(values.shape)
        there.copy_(values)
        return there.as_subclass(DeviceTensor)

    def host(self, tensor: Tensor) -> Tensor:
        """What the tensor holds when the device is through."""
        self.finish()
        return tensor.as_subclass(Tensor).clone()

    def calls(self, function: str) -> int:
        """How often this function of the driver was called so far."""
        return int(self._driver.double_calls(function.encode()))

    def fail(self, function: str) -> None:
        """Let the next call of this function of the driver fail: there is no memory."""
        self._driver.double_fail(function.encode(), 2, 0)

    def differs(self, number: int) -> None:
        """From now on it is another device than that of a process with another number."""
        self._driver.double_be(ctypes.c_ubyte(number))

    def finish(self) -> None:
        assert self._driver.cuStreamSynchronize(None) == 0
