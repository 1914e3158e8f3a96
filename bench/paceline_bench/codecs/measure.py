"""Times the codecs, each in turn with a copy of the same elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paceline import _engine
from paceline.group import codecs
from paceline_bench import bandwidth, instruments, sizes
from paceline_bench.ranks.gradients import GROUP, RELATIVE
from paceline_bench.table import column, wrong

_BURST_BYTES = 16 << 20
"""Bytes of elements that the calls of one burst encode together."""

Array = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One codec at one size, in one thread. The fields are the keys in JSON.

    bytes: of the elements before they are encoded. encode_gbps, decode_gbps, memcpy_gbps: 10^9 bytes of elements per
    second of CPU time, medians over the rounds. ratio: encoded bytes over `bytes`. max_relative_error: the largest
    error of an element over the largest magnitude of its group of 128. encode_to_memcpy, decode_to_memcpy: median over
    the rounds of the speed over that of the copy in the same round. buffer: where the elements fit, "cache" or
    "memory". isa: the instruction set in use. wrong: elements whose error is larger than the codec may make.
    """

    codec: str = field(metadata=column("codec"))
    dtype: str = field(metadata=column("type"))
    bytes: int = field(metadata=column("size", sizes.show))
    encode_gbps: float = field(metadata=column("encode GB/s", "{:.1f}"))
    decode_gbps: float = field(metadata=column("decode GB/s", "{:.1f}"))
    ratio: float = field(metadata=column("ratio", "{:.3f}"))
    max_relative_error: float = field(metadata=column("max error", "{:.2g}"))
    memcpy_gbps: float = field(metadata=column("copy GB/s", "{:.1f}"))
    encode_to_memcpy: float = field(metadata=column("to copy", "{:.2f}"))
    decode_to_memcpy: float = field(metadata=column("to copy", "{:.2f}"))
    buffer: str = field(metadata=column("buffer"))
    isa: str
    wrong: int = field(metadata=column("#wrong", wrong))


class Case:
    """A codec with elements to encode, and room for all that it makes of them."""

    def __init__(self, codec: str, dtype: str, weights: NDArray[np.float32], size: int) -> None:
        self.codec, self.dtype, self.size = codec, dtype, size
        self.elements = np.resize(_stored(weights, dtype), size // _engine.SIZES[_engine.DTYPES[dtype]])
        self.encoded = np.zeros(codecs.encoded_bound(codec, self.elements.size, dtype), np.uint8)
        self.decoded = np.zeros_like(self.elements)
        self.bytes = self._encode()
        self.calls = max(1, _BURST_BYTES // size)

    def errors(self) -> NDArray[np.float64]:
        """Return the error of each element over the largest magnitude of its group. Raises CorruptEncoding."""
        found = codecs.decode(self.encoded[: self.bytes], self.codec, self.elements.size, dtype=self.dtype)
        given, got = (_widened(array, self.dtype) for array in (self.elements, found))
        largest = np.maximum.reduceat(np.abs(given), np.arange(0, given.size, GROUP)).repeat(GROUP)[: given.size]
        return np.divide(np.abs(got - given), largest, out=np.zeros(given.size), where=largest > 0)

    def time(self) -> tuple[float, float, float]:
        """Return CPU seconds of a copy, of encoding and of decoding."""
        codec, dtype, count = _engine.CODECS[self.codec], _engine.DTYPES[self.dtype], self.elements.size
        source, middle, target = (array.ctypes.data for array in (self.elements, self.encoded, self.decoded))
        spent = (
            instruments.time_copy(source, target, self.size, self.calls),
            instruments.time_encode(codec, dtype, source, count, middle, self.calls),
            instruments.time_decode(codec, dtype, middle, self.bytes, target, count, self.calls),
        )
        copy, encode, decode = (nanoseconds / self.calls / 1e9 for nanoseconds in spent)
        return copy, encode, decode

    def _encode(self) -> int:
        codec, dtype = _engine.CODECS[self.codec], _engine.DTYPES[self.dtype]
        return _engine.encode(codec, dtype, self.elements.ctypes.data, self.elements.size, self.encoded.ctypes.data)


def every_case() -> list[tuple[str, str]]:
    """Return every codec with every dtype that it takes."""
    dtypes = ("float32", "bfloat16")
    return [(codec, dtype) for codec in codecs.CODECS for dtype in dtypes if codecs.takes(codec, dtype)]


def measure(
    size: int, buffer: str, weights: NDArray[np.float32], rounds: int, progress: Callable[[str], None]
) -> list[Row]:
    """Check each codec, then time all of them in `rounds` rounds, each right after a copy."""
    cases = [Case(codec, dtype, weights, size) for codec, dtype in every_case()]
    errors = []
    for case in cases:
        progress(f"{buffer}: {case.codec} {case.dtype}")
        errors.append(case.errors())
        case.time()
    times: list[list[tuple[float, float, float]]] = [[] for _ in cases]
    for number in range(rounds):
        progress(f"{buffer}: round {number + 1}")
        for case, found in zip(cases, times, strict=True):
            found.append(case.time())
    return [_row(case, buffer, error, found) for case, error, found in zip(cases, errors, times, strict=True)]


def _row(case: Case, buffer: str, errors: NDArray[np.float64], times: list[tuple[float, float, float]]) -> Row:
    copy, encode, decode = (
        round(bandwidth.algorithm_bandwidth(case.size, median(seconds)), 3) for seconds in zip(*times, strict=True)
    )
    return Row(
        codec=case.codec,
        dtype=case.dtype,
        bytes=case.size,
        encode_gbps=encode,
        decode_gbps=decode,
        ratio=round(case.bytes / case.size, 4),
        max_relative_error=float(errors.max()),
        memcpy_gbps=copy,
        encode_to_memcpy=round(median(copied / encoded for copied, encoded, _ in times), 3),
        decode_to_memcpy=round(median(copied / decoded for copied, _, decoded in times), 3),
        buffer=buffer,
        isa=_engine.isa(),
        wrong=int((errors > RELATIVE.get(case.codec, 0)).sum()),
    )


def _stored(weights: NDArray[np.float32], dtype: str) -> Array:
    return weights if dtype == "float32" else (weights.view(np.uint32) >> 16).astype(np.uint16)


def _widened(array: Array, dtype: str) -> NDArray[np.float64]:
    floats = array if dtype == "float32" else (array.astype(np.uint32) << 16).view(np.float32)
    return floats.astype(np.float64)
