"""Ends without closing anything, with all-reduces in device memory under way; the argument says how."""

import ctypes
import os
import signal
import sys

import numpy as np
import pytest

import paceline
from paceline import _engine
from paceline.errors import Aborted, PeerLost

driver = ctypes.CDLL("libcuda.so.1")
driver.double_allocate.restype = ctypes.c_uint64
driver.double_allocate.argtypes = (ctypes.c_size_t, ctypes.c_int)


class Array:
    """An array of float32 in the memory of the stand-in for a device."""

    def __init__(self, count):
        self._address, self._count = driver.double_allocate(4 * count, 2), count
        self.host = np.frombuffer((ctypes.c_byte * (4 * count)).from_address(self._address), np.float32)

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self._count,), "typestr": "<f4", "data": (self._address, False), "version": 3}


(how,) = sys.argv[1:]
group = paceline.init()
group.runtime.devices = _engine.Devices(b"any image will do for the stand-in")
arrays = [Array(count) for count in (10, 10_000, 300_000)]


def call_all():
    for array in arrays:
        group.all_reduce(array)


def call_all_and_wait():
    call_all()
    group.all_reduce(arrays[1], async_op=True).wait(60)


if how == "together" or group.rank == 1:
    call_all()
if how == "killed" and group.rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
if how == "early" and group.rank == 1:
    sys.exit(0)
if how != "together":
    with pytest.raises((PeerLost, Aborted), match="rank 1"):  # in any call, because rank 1 waits for none
        call_all_and_wait()
    assert driver.cuStreamSynchronize(None) == 0
print("done")
