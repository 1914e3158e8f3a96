"""Collectives of arrays in device memory, on the stand-in for a driver that LD_LIBRARY_PATH leads to.

Arguments: `kernels` if there are some, `apart` if each rank is on a machine of its own, `pairs` if two ranks share one.
"""

import ctypes
import os
import re
import sys

import numpy as np
import pytest

import paceline
from paceline import _engine
from paceline.errors import Mismatch

driver = ctypes.CDLL("libcuda.so.1")
driver.double_allocate.restype = ctypes.c_uint64
driver.double_allocate.argtypes = (ctypes.c_size_t, ctypes.c_int)
DEVICE, POOL = 2, 4
KINDS = {"float32": "<f4", "int64": "<i8", "float64": "<f8"}


class Array:
    """An array as CuPy has them; `host` is what the stand-in lets the host see of it."""

    def __init__(self, values, kind=DEVICE, stream=None):
        self._address = driver.double_allocate(values.nbytes, kind)
        memory = (ctypes.c_byte * values.nbytes).from_address(self._address)
        self.host = np.frombuffer(memory, values.dtype).reshape(values.shape)
        self.host[...] = values
        self._stream = stream

    @property
    def __cuda_array_interface__(self):
        return {
            "shape": self.host.shape,
            "typestr": self.host.dtype.str,
            "data": (self._address, False),
            "strides": None if self.host.flags.c_contiguous else self.host.strides,
            "stream": self._stream,
            "version": 3,
        }


class Part(Array):
    """Every other element of an array."""

    def __init__(self):
        super().__init__(np.zeros(20, np.float32))
        self.host = self.host[::2]


class Tensor(ctypes.Structure):
    """DLPack's, in a capsule that lives as long as this program."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("dimensions", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class OnlyDLPack:
    """An array of bfloat16, which `__cuda_array_interface__` cannot show."""

    def __init__(self, count):
        self._address = driver.double_allocate(2 * count, DEVICE)
        self.host = np.frombuffer((ctypes.c_byte * (2 * count)).from_address(self._address), np.uint16)
        self._tensor = Tensor(self._address, 2, 0, 1, 4, 16, 1, (ctypes.c_int64 * 1)(count), None, 0, None, None)

    def __dlpack_device__(self):
        return (2, 0)

    def __dlpack__(self, *, stream=None):
        assert stream == 1
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        return new(ctypes.byref(self._tensor), ctypes.c_char_p(b"dltensor"), None)


def finish():
    assert driver.cuStreamSynchronize(None) == 0


def path():
    name, why = group._device.last
    assert why
    return name


def refused(kind, words, call):
    with pytest.raises(kind, match=re.escape(words)):
        call()


if "apart" in sys.argv[1:]:
    os.environ["PACELINE_MACHINE"] = os.environ["RANK"]
if "pairs" in sys.argv[1:]:
    os.environ["PACELINE_MACHINE"] = str(int(os.environ["RANK"]) // 2)
with paceline.init() as group:
    if "unasked" in sys.argv[1:]:
        array = Array(np.ones(3, np.float32))
        for call in (lambda: group.all_reduce(array), lambda: group.broadcast(array, 1)):
            refused(ValueError, "arrays of a CUDA device need PACELINE_CUDA=engine on all ranks", call)
        group.all_reduce(here := np.ones(3, np.float32))
        assert here.tolist() == [group.size] * 3
        sys.exit()
    if "kernels" in sys.argv[1:]:
        group.runtime.devices = _engine.Devices(b"any image will do for the stand-in", (8 << 10, 512 << 10))
    ranks = np.arange(group.size)
    paths = []
    for count in (3, 10_000, 300_000):
        for name in KINDS:
            values = (np.arange(count) % 100 + group.rank).astype(name)
            expected = sum((np.arange(count) % 100 + rank).astype(name) for rank in ranks)
            for kind in (DEVICE, POOL):
                array = Array(values.reshape(1, -1), kind)
                assert group.all_reduce(array) is None
                finish()
                assert np.array_equal(array.host[0], expected), (count, name, kind)
                paths.append(path())
    if "kernels" in sys.argv[1:]:
        between = {"host", "staged", "by_machine"}
        assert set(paths) == (between if "pairs" in sys.argv[1:] else {"host", "one_shot", "two_shot"}), paths

    array = Array(np.full(10_000, group.rank + 1, np.float32))
    operation = group.all_reduce(array, "max", async_op=True)
    operation.wait()
    finish()
    assert (array.host == group.size).all()
    operation.wait(60)  # the host hears of it a little later
    assert operation.done()

    halves = OnlyDLPack(5000)
    halves.host[:] = 0x3F80  # 1
    group.all_reduce(halves)
    finish()
    assert (halves.host == {2: 0x4000, 4: 0x4080}[group.size]).all()

    for count in (3, 5_000, 200_000):
        everyone = [(np.arange(count * group.size) % 100 + 10 * rank).astype(np.float32) for rank in ranks]
        mine = everyone[group.rank]
        part = slice(group.rank * count, (group.rank + 1) * count)
        last = group.size - 1

        array = Array(mine)
        assert group.broadcast(array, last) is None
        finish()
        assert np.array_equal(array.host, everyone[last])

        array = Array(mine)
        group.reduce(array, last, "avg")
        finish()
        assert np.array_equal(array.host, sum(everyone) / group.size if group.rank == last else mine)

        output = Array(np.zeros(count, np.float32))
        group.reduce_scatter(output, Array(mine), "premul_sum", factor=group.rank + 1, async_op=True).wait()
        finish()
        weighted = sum(values * (rank + 1) for rank, values in enumerate(everyone))
        assert np.array_equal(output.host, weighted[part])

        output = Array(np.zeros((group.size, count), np.float32))
        group.all_gather(output, Array(mine[part]))
        finish()
        assert np.array_equal(
            output.host, [values[rank * count : (rank + 1) * count] for rank, values in enumerate(everyone)]
        )

        output = Array(np.zeros(group.size * count, np.float32))
        group.all_to_all(output, Array(mine))
        finish()
        assert np.array_equal(output.host, np.concatenate([values[part] for values in everyone]))

        output = Array(np.zeros(count, np.float32))
        root = group.rank == last
        group.scatter(output, Array(mine) if root else None, last)
        finish()
        assert np.array_equal(output.host, everyone[last][part])
        output = Array(np.zeros(group.size * count, np.float32)) if root else None
        group.gather(Array(mine[part]), output, last)
        finish()
        expected = np.concatenate([values[rank * count : (rank + 1) * count] for rank, values in enumerate(everyone)])
        assert output is None or np.array_equal(output.host, expected)
    assert path() == "direct" or "kernels" not in sys.argv[1:] or "pairs" in sys.argv[1:]

    # Rank r gives r + 1 elements to each rank before the last one, which gets none.
    sent, received = [group.rank + 1] * last + [0], ranks + 1 if group.rank < last else ranks * 0
    array, output = Array(np.full(sum(sent), group.rank, np.int64)), Array(np.zeros(max(sum(received), 1), np.int64))
    output.host = output.host[: sum(received)]
    group.all_to_all(output, array, received, sent)
    finish()
    assert np.array_equal(output.host, np.repeat(ranks, received))

    # What is encoded between machines has the bits of the same calls on the host, and so has what is lost.
    count = 60_000
    for codec in ("bf16", "int8", "three_in_one", "auto"):
        lost, lost_here = Array(np.zeros(count, np.float32)), np.zeros(count, np.float32)
        for _ in range(2):
            here = ((np.arange(count) % 100 + group.rank) * 65 / 4096).astype(np.float32)
            array = Array(here)
            for one, residual in ((array, lost), (here, lost_here)):
                group.all_reduce(one, "avg", codec=codec, residual=residual)
            finish()
            assert np.array_equal(array.host, here), codec
            assert np.array_equal(lost.host, lost_here), codec
        assert lost.host.any() == bool({"apart", "pairs"} & set(sys.argv)) or codec == "auto"
        if codec == "auto":
            continue
        part, part_here = Array(np.zeros(count // group.size, np.float32)), np.zeros(count // group.size, np.float32)
        group.reduce_scatter(part, array, codec=codec)
        finish()
        group.reduce_scatter(part_here, array.host, codec=codec)
        assert np.array_equal(part.host, part_here)
        whole, whole_here = Array(np.zeros((group.size, count), np.float32)), np.zeros((group.size, count), np.float32)
        group.all_gather(whole, array, codec=codec)
        group.broadcast(array, last, codec=codec)
        finish()
        group.all_gather(whole_here, here, codec=codec)
        group.broadcast(here, last, codec=codec)
        assert np.array_equal(whole.host, whole_here) and np.array_equal(array.host, here)
    array = Array(np.zeros(10_000, np.int64))

    here = np.zeros(group.size, np.float32)
    refused(TypeError, "both lie", lambda: group.all_gather(here, Array(np.zeros(1, np.float32))))
    refused(ValueError, "several streams", lambda: group.all_to_all(Array(here), Array(here, stream=2)))
    refused(ValueError, "lossless encodes", lambda: group.broadcast(array, codec="lossless"))
    refused(ValueError, "the root must be", lambda: group.broadcast(array, group.size))
    refused(TypeError, "send and recv do not", lambda: group.send(array, (group.rank + 1) % group.size))

    refused(ValueError, "must be contiguous", lambda: group.all_reduce(Part()))
    refused(TypeError, "dtype <c8 is not supported", lambda: group.all_reduce(Array(np.zeros(3, np.complex64))))
    refused(ValueError, "bf16 encodes sums", lambda: group.all_reduce(array, codec="bf16"))
    refused(TypeError, "array and residual must both lie", lambda: group.all_reduce(array, residual=here))
    lost = Array(np.zeros(3, np.float32))
    refused(ValueError, "the residual must hold", lambda: group.all_reduce(array, codec="bf16", residual=lost))
    wrong = Array(np.zeros(10_000 + group.rank, np.float32))
    refused(Mismatch, "float32[10001] SUM", lambda: group.all_reduce(wrong, async_op=True).wait(60))
    refused(Mismatch, "float32[10001] SUM", lambda: group.all_reduce(wrong))
print("done")
