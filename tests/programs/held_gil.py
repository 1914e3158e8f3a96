"""Two ranks: a thread of rank 0 holds the GIL, until rank 1 has done what it needs rank 0 for.

Arguments: the thread that waits in a collective meanwhile, and would have to ask for the GIL: `main`, or `another` one;
the path of a pipe to make.
"""

from __future__ import annotations

import ctypes
import os
import select
import sys
import threading
import time
from pathlib import Path

import numpy as np

import paceline

COUNTS = (8, 1 << 16, 1 << 20)
# Seconds; where they are too short, all goes well even if a waiting thread does hold its rank up.
A_WAITER_HAS_BEGUN = 0.1
A_WAITER_HAS_ASKED = 0.3  # for signals, as it does now and then: see kAskAfter


def hold_gil(descriptor: int) -> None:
    """Read a byte in C without giving the GIL up."""
    time.sleep(A_WAITER_HAS_BEGUN)
    assert ctypes.PyDLL(None).read(descriptor, ctypes.create_string_buffer(1), 1) == 1


def main(waiter: str, path: str) -> None:
    group = paceline.init(timeout=30)
    other = group.split(0)
    assert other is not None
    arrays = [np.ones(count, np.float32) for count in COUNTS]
    pipe = Path(path)
    if group.rank == 1:
        os.mkfifo(pipe)
    group.barrier()
    if group.rank == 1:
        with pipe.open("wb", buffering=0) as released:
            try:
                select.select([], [], [], A_WAITER_HAS_ASKED)
                for array in arrays:
                    group.all_reduce(array)
            finally:
                released.write(b"x")
        other.barrier()
    else:
        operations = [group.all_reduce(array, async_op=True) for array in arrays]
        with pipe.open("rb", buffering=0) as held:
            calls = [other.barrier, lambda: hold_gil(held.fileno())]
            if waiter == "main":
                calls.reverse()
            thread = threading.Thread(target=calls[0])
            thread.start()
            calls[1]()
            thread.join()
        for operation in operations:
            assert operation is not None
            operation.wait()
    assert all((array == group.size).all() for array in arrays)
    group.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
