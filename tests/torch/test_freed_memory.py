"""What backward frees stays with malloc, so that it is not faulted in again."""

from __future__ import annotations

import json
import platform
import subprocess
import sys

import pytest

from paceline.torch import freed_memory

ROUNDS = 20
SETTLED = 12
"""Rounds after which the heap must have settled. Freed neighbours become one block, which is cut anew with its ends
elsewhere, so it takes a few rounds (up to 5, by what else lies on the heap) until all find room in what was freed."""

# Whether glibc keeps large blocks by itself depends on what else lies on its heap: at first it is told to map each.
PROGRAM = f"""
import ctypes, json, resource, torch
from paceline.torch.freed_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(5_000_000) for _ in range(4)]
    del tensors
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

torch.set_num_threads(1)
M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 128 << 10)
usual = [faults() for _ in range(4)]
keep_freed_memory(60_000_000)
keep_freed_memory(60_000_000)
print(json.dumps([usual, [faults() for _ in range({ROUNDS})]]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_freed_memory_is_not_faulted_in_again() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=250, check=True)
    usual, kept = json.loads(done.stdout)
    assert min(usual) > 10_000
    assert sum(kept[SETTLED:]) < 100, kept


GAPS = 40
PIECES = f"""
import ctypes, json, torch
from paceline.torch.available_memory import resident_bytes
from paceline.torch.freed_memory import return_freed_memory

M_MMAP_THRESHOLD = -3
ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 32 << 20)
some = [torch.ones(1 << 18) for _ in range(2 * {GAPS})]
del some[::2]
return_freed_memory()
before = resident_bytes()
more = [torch.ones(1 << 18) for _ in range({GAPS})]
used = resident_bytes()
del more
print(json.dumps([used - before, resident_bytes() - before]))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_what_is_freed_goes_back_although_the_heap_has_gaps() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, timeout=250, check=True)
    used, left = json.loads(done.stdout)
    assert used > GAPS << 19
    assert left < GAPS << 18, left


def test_malloc_is_never_told_to_keep_less_than_it_keeps_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    monkeypatch.setattr(freed_memory, "_set", lambda mapped_from, kept: told.append((mapped_from, kept)))
    monkeypatch.setattr(freed_memory, "_kept", 0)
    by_itself = 64 << 20  # with pieces of up to 32 MiB, twice the largest: mallopt(3), M_MMAP_THRESHOLD
    for more in (1 << 20, 3 << 20):
        freed_memory.keep_freed_memory(more)
    with freed_memory.returning():
        pass
    (_, first), (_, second), _, (mapped_from, after) = told
    assert (first, second, after) == (by_itself + (1 << 20), by_itself + (4 << 20), by_itself + (4 << 20))
    assert mapped_from == by_itself // 2


def test_a_buffer_that_is_reduced_again_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[int] = []
    monkeypatch.setattr(freed_memory, "keep_freed_memory", kept.append)
    returning = freed_memory.Returning()
    returning.note(4096, 40_000_000)  # DDP's buckets of the first step, before it makes others
    for _step in range(3):
        returning.note(4096, 4_000_000)
        returning.note(8192, 8_000_000)
    assert kept == [4_000_000, 8_000_000]
