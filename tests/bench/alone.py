"""Ranks that do what no system should, for the tests."""

from __future__ import annotations

import mmap
import os
import sys
import time

import numpy as np


class Alone:
    """No communication at all; what a call does is decided by `options["call"]`."""

    about = "alone"

    def __init__(self, options, timeout):
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.call = options["call"]

    def memory(self, size):
        return np.empty(size, np.uint8)

    def bind(self, case, source, target):
        calls = {"die": self.die, "hang": self.hang, "spin": self.spin, "sleep": self.sleep, "segment": self.segment}
        return calls[self.call]

    def die(self):
        if self.rank == 1:
            print("last words of rank 1", file=sys.stderr, flush=True)
            os._exit(7)

    def hang(self):
        time.sleep(600)

    def segment(self):
        """Maps, as an MPI does, the file of shared memory that SEGMENT names; then hangs; or rank 1 dies."""
        name, _, then = os.environ["SEGMENT"].partition(" ")
        file = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(file, 4096)
        self.memory_of_all = mmap.mmap(file, 4096)
        os.close(file)
        self.memory_of_all[self.rank] = 1
        if then == "die":
            while not self.memory_of_all[0]:  # what rank 0 maps while it is being ended, nobody sees
                time.sleep(0.01)
            self.die()
        self.hang()

    def spin(self):
        begin = time.process_time()
        while self.rank == 0 and time.process_time() < begin + 0.1:
            pass

    def sleep(self):
        if self.rank == 0:
            time.sleep(0.1)

    def barrier(self):
        pass

    def algorithm(self):
        return "none"

    def close(self):
        pass
