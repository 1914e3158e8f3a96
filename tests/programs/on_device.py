"""All-reduces of arrays in device memory, on the stand-in for a driver that LD_LIBRARY_PATH leads to."""

import ctypes
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


def refused(kind, words, call):
    with pytest.raises(kind, match=re.escape(words)):
        call()


with paceline.init() as group:
    if "kernels" in sys.argv[1:]:
        group.runtime.devices = _engine.Devices(b"any image will do for the stand-in")
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
                paths.append(group._device.last[0])
    if "kernels" in sys.argv[1:]:
        assert set(paths) == {"host", "one_shot", "two_shot"}, paths

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

    refused(ValueError, "must be contiguous", lambda: group.all_reduce(Part()))
    refused(TypeError, "dtype <c8 is not supported", lambda: group.all_reduce(Array(np.zeros(3, np.complex64))))
    refused(ValueError, "not encoded", lambda: group.all_reduce(array, codec="bf16"))
    refused(TypeError, "only all_reduce", lambda: group.broadcast(array))
    wrong = Array(np.zeros(10_000 + group.rank, np.float32))
    refused(Mismatch, "float32[10001] SUM", lambda: group.all_reduce(wrong, async_op=True).wait(60))
    refused(Mismatch, "float32[10001] SUM", lambda: group.all_reduce(wrong))
print("done")
