"""Times the reduction kernels, each in turn with a plain float32 addition of as many bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median, quantiles

import numpy as np

from paceline import _engine
from paceline_bench import bandwidth, instruments, row
from paceline_bench.ranks import case, pattern
from paceline_bench.ranks.pattern import Array
from paceline_bench.table import column

OPERANDS = 3
"""Buffers of a kernel: two inputs and one output."""
_BURST_BYTES = 32 << 20
"""Bytes that the calls of one burst read and write together."""


@dataclass(frozen=True)
class Kernel:
    """A reduction of two inputs."""

    dtype: str
    op: str

    @property
    def divisor(self) -> float:
        """The number that the result is divided by; an average is a sum divided by the number of inputs."""
        return 2.0 if self.op == "avg" else 1.0

    @property
    def storage(self) -> str:
        """The dtype that holds the data; bools are held as bytes, because NumPy takes any non-zero byte for True."""
        return "uint8" if self.dtype == "bool" else self.dtype


@dataclass(frozen=True, kw_only=True)
class Row(row.Row):
    """One kernel at one size.

    bytes: of one operand; there are two inputs and one output. buffer: where the operands fit, "cache" or "memory".
    algbw_gbps: 10^9 bytes/s of all three operands; add_gbps is the same for the plain addition in the same rounds.
    to_add: median over the rounds of the kernel's time over the addition's.
    """

    op: str = field(metadata=column("redop"))
    time_us_q1: float
    time_us_q3: float
    algbw_gbps: float = field(metadata=column("GB/s", "{:.1f}"))
    add_gbps: float = field(metadata=column("add GB/s", "{:.1f}"))
    to_add: float = field(metadata=column("to add", "{:.2f}"))


def every_kernel() -> list[Kernel]:
    """Return every dtype with every reduction that it supports.

    PREMUL_SUM is left out, because it is SUM once its factor has been applied.
    """
    return [
        Kernel(dtype, op.lower())
        for dtype, number in _engine.DTYPES.items()
        for op, reduction in _engine.OPS.items()
        if op != "PREMUL_SUM" and _engine.supports(number, reduction)
    ]


class Operands:
    """Two inputs and an output of `size` bytes each, which every kernel uses in turn."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.a, self.b, self.out = (case.aligned(size) for _ in range(OPERANDS))

    def time(self, kernel: Kernel, calls: int) -> float:
        """Return seconds per call of the kernel."""
        count = self.size // pattern.storage(kernel.storage).itemsize
        dtype, op = _engine.DTYPES[kernel.dtype], _engine.OPS[kernel.op.upper()]
        return instruments.time_reduce(dtype, op, kernel.divisor, *self._addresses(), count, calls) / calls / 1e9

    def time_add(self, calls: int) -> float:
        """Return seconds per call of the plain float32 addition."""
        return instruments.time_add(*self._addresses(), self.size // 4, calls) / calls / 1e9

    def load(self, kernel: Kernel) -> Array:
        """Write exact inputs, and return one period of the expected result."""
        inputs = [pattern.contribution(rank, 2, kernel.dtype, _like(kernel.op), seed=1) for rank in range(2)]
        if kernel.dtype == "bool":
            inputs = [values & 1 for values in inputs]
        for buffer, values in zip((self.a, self.b), inputs, strict=True):
            pattern.fill(self._view(buffer, kernel), pattern.encode(values, kernel.storage))
        return pattern.encode(_combined(inputs, kernel), kernel.storage)

    def count_wrong(self, kernel: Kernel) -> int:
        """Return the number of wrong elements in the result of one call."""
        expected = self.load(kernel)
        self.out[:] = 0xA5
        self.time(kernel, 1)
        return pattern.count_wrong(self._view(self.out, kernel), expected)

    def clear(self) -> None:
        """Fill the inputs with zeros, on which no kernel is slow."""
        self.a[:] = self.b[:] = 0

    def _addresses(self) -> tuple[int, int, int]:
        return self.out.ctypes.data, self.a.ctypes.data, self.b.ctypes.data

    def _view(self, buffer: Array, kernel: Kernel) -> Array:
        return buffer.view(pattern.storage(kernel.storage))


def measure(size: int, buffer: str, kernels: list[Kernel], rounds: int, progress: Callable[[str], None]) -> list[Row]:
    """Check each kernel, then time all of them in `rounds` rounds, each right after an addition."""
    operands = Operands(size)
    wrong = {}
    for kernel in kernels:
        progress(f"{buffer}: {kernel.dtype} {kernel.op}")
        wrong[kernel] = operands.count_wrong(kernel)
    operands.clear()
    calls = max(1, _BURST_BYTES // (OPERANDS * size))
    times: dict[Kernel, list[tuple[float, float]]] = {kernel: [] for kernel in kernels}
    for number in range(rounds):
        progress(f"{buffer}: round {number + 1}")
        for kernel in kernels:
            operands.time_add(1)
            add = operands.time_add(calls)
            operands.time(kernel, 1)
            times[kernel].append((operands.time(kernel, calls), add))
    return [_row(kernel, size, buffer, times[kernel], wrong[kernel], calls * rounds) for kernel in kernels]


def _row(kernel: Kernel, size: int, buffer: str, times: list[tuple[float, float]], wrong: int, iterations: int) -> Row:
    mine, adds = [time for time, _ in times], [add for _, add in times]
    first, middle, third = (value * 1e6 for value in quantiles(mine, n=4, method="inclusive"))
    return Row(
        collective="reduction",
        algorithm=_engine.isa(),
        system="paceline",
        path="kernel",
        dtype=kernel.dtype,
        op=kernel.op,
        bytes=size,
        ranks=1,
        buffer=buffer,
        time_us=round(middle, 4),
        time_us_q1=round(first, 4),
        time_us_q3=round(third, 4),
        cpu_us=round(middle, 4),
        algbw_gbps=round(bandwidth.algorithm_bandwidth(OPERANDS * size, middle / 1e6), 3),
        add_gbps=round(bandwidth.algorithm_bandwidth(OPERANDS * size, median(adds)), 3),
        to_add=round(median(time / add for time, add in times), 4),
        wrong=wrong,
        iterations=iterations,
    )


def _like(op: str) -> str:
    return op if op in pattern.OPS else "sum"


def _combined(inputs: list[Array], kernel: Kernel) -> Array:
    a, b = inputs
    if kernel.dtype == "bool":
        meaning = {"sum": "bor", "max": "bor", "product": "band", "min": "band"}
        return _bits(a, b, meaning.get(kernel.op, kernel.op))
    if kernel.op == "avg":
        whole = kernel.dtype.startswith(("int", "uint"))
        return (a + b) // 2 if whole else (a + b) / 2
    return pattern.combine(inputs, kernel.op) if kernel.op in pattern.OPS else _bits(a, b, kernel.op)


def _bits(a: Array, b: Array, op: str) -> Array:
    result: Array = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor}[op](a, b)
    return result
