"""Two ranks: rank 1 gives up and interrupts rank 0, which waits in a collective, as Ctrl-C interrupts all at once.

Rank 0 hears first that rank 1 has given up. It cannot raise that yet, because a thread of it holds the GIL until it has
been interrupted, too. Argument: the path of a socket to make.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import socket
import sys
import threading
import time
import traceback

import numpy as np
import pytest

import paceline
from paceline.errors import Aborted

THE_WAITER_HAS_HEARD = 0.3
"""Seconds; where they are too few, rank 0 is interrupted before it hears anything, and raises the same."""


def hold_gil(descriptor: int) -> None:
    """Say that the GIL is held and read a byte, both in C without giving it up, once the main thread is in its call."""
    waiter, byte, holding = threading.main_thread().ident, ctypes.create_string_buffer(1), ctypes.PyDLL(None)
    assert waiter is not None
    while sys._current_frames()[waiter].f_code.co_name != "all_reduce":
        time.sleep(0.001)
    assert holding.write(descriptor, byte, 1) == 1
    while holding.read(descriptor, byte, 1) != 1:
        continue  # a signal


def main(path: str) -> None:
    group = paceline.init(timeout=30)
    waiter = np.array([os.getpid()])
    with socket.socket(socket.AF_UNIX) as line:
        if group.rank == 1:
            line.bind(path)
            line.listen()
        group.broadcast(waiter)
        group.barrier()
        if group.rank == 1:
            with line.accept()[0] as accepted:
                accepted.recv(1)
                group.abort("interrupted")
                select.select([], [], [], THE_WAITER_HAS_HEARD)
                os.kill(int(waiter[0]), signal.SIGINT)
                accepted.send(b"x")
            return
        line.connect(path)
        sys.setswitchinterval(1000)
        thread = threading.Thread(target=hold_gil, args=[line.fileno()])
        thread.start()
        with pytest.raises(KeyboardInterrupt) as caught:
            group.all_reduce(np.ones(1 << 16, np.float32))
        thread.join()
    where = [frame.name for frame in traceback.extract_tb(caught.tb)]
    assert where == ["main", "all_reduce"], where
    with pytest.raises(Aborted, match="interrupted"):
        group.barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])
