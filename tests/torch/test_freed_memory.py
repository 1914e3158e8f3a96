"""What backward frees stays with malloc, so that it is not faulted in again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Whether glibc keeps large blocks by itself depends on what else lies on its heap: at first it is told to map each.
PROGRAM = """
import ctypes, resource, torch
from paceline.torch.freed_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(4):
        tensors = [torch.ones(5_000_000) for _ in range(4)]
        del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 << 10)
faults()
usual = faults()
keep_freed_memory(60_000_000)
keep_freed_memory(60_000_000)
faults()
print(usual, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_freed_memory_is_not_faulted_in_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=True)
    usual, kept = map(int, done.stdout.split())
    assert usual > 10_000 and kept < 100
