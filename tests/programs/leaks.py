"""Ranks that make and close one kind of thing again and again; memory, descriptors and threads stay as they were.

Arguments: the kind, how many times, and a folder for what is written.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

MIB = 1 << 20
GROWTH = 2 * MIB
"""Bytes by which memory may grow after the first half: what allocators keep."""
PER_ROUND = 1500
"""The same, for each round: less than what any of the things takes."""
IN_STORE = {"new_group": 340}
"""More bytes for each round: what torch itself keeps for a group in its store, which rank 0 serves."""
FEW = 2
"""Descriptors and threads that may be there for a moment."""


def _groups() -> Callable[[int], None]:
    import paceline

    world = paceline.init(timeout=60)

    def once(number: int) -> None:
        part = world.split(0)
        assert part is not None
        part.all_reduce(np.ones(8, np.float32))
        inner = part.split(0)
        assert inner is not None
        inner.all_reduce(np.ones(1 << 15, np.float32))
        inner.close()
        part.close()

    return once


def _process_sets(policy: str) -> Callable[[int], None]:
    os.environ["PACELINE_POLICY"] = policy
    import torch

    import paceline.horovod.torch as hvd

    hvd.init()
    before: list[weakref.ref[object]] = []

    def once(number: int) -> None:
        assert all(ref() is None for ref in before)
        chosen = hvd.add_process_set([0, 1])
        before[:] = [weakref.ref(chosen)]
        if hvd.rank() < 2:
            hvd.allreduce(torch.ones(8), name=f"a{number % 7}", process_set=chosen)
        hvd.remove_process_set(chosen)

    return once


def _inits(number: int) -> None:
    import torch

    import paceline.horovod.torch as hvd

    hvd.init()
    hvd.allreduce(torch.ones(8), name="a")
    hvd.shutdown()


def _timelines(folder: str) -> Callable[[int], None]:
    import torch

    import paceline.horovod.torch as hvd

    hvd.init()

    def once(number: int) -> None:
        hvd.start_timeline(f"{folder}/timeline.json")
        hvd.allreduce(torch.ones(8), name="a")
        hvd.stop_timeline()

    return once


def _with_torch(once: Callable[[int], None]) -> Callable[[int], None]:
    import torch.distributed as dist

    import paceline.torch  # noqa: F401

    dist.init_process_group("paceline")
    return once


def _new_group(number: int) -> None:
    import torch
    import torch.distributed as dist

    group = dist.new_group([0, 1])
    dist.all_reduce(torch.ones(8), group=group)
    dist.all_reduce(torch.ones(1 << 15), group=group, async_op=True).wait()
    dist.destroy_process_group(group)


def _loaders(number: int) -> None:
    from paceline.torch.data import Loader

    loader = Loader(np.arange(8, dtype=np.float32), batch_size=4)
    assert sum(len(batch) for batch in loader) == 4
    loader.close()


def _buckets(number: int) -> None:
    import torch

    from paceline.torch import GradientBuckets, ShardedOptimizer

    model = torch.nn.Linear(64, 64)
    buckets = GradientBuckets(model)
    model(torch.ones(2, 64)).sum().backward()
    buckets.close()
    model = torch.nn.Linear(64, 64)
    optimizer = ShardedOptimizer(model.parameters(), torch.optim.Adam, lr=0.1)
    model(torch.ones(2, 64)).sum().backward()
    optimizer.step()
    optimizer.close()


def held() -> tuple[int, int, int, int, list[str]]:
    """Bytes of memory of its own, bytes of shared memory, descriptors, threads and named segments of this process."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    fields = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    own, shared = (int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssShmem"))
    segments = [path.name for path in Path("/dev/shm").iterdir() if "paceline" in path.name]
    return own, shared, len([*Path("/proc/self/fd").iterdir()]), threading.active_count(), segments


def main(kind: str, times: str, folder: str) -> None:
    kinds: dict[str, Callable[[], Any]] = {
        "groups": _groups,
        "board": partial(_process_sets, "board"),
        "graph": partial(_process_sets, "graph"),
        "cycle": partial(_process_sets, "cycle"),
        "inits": lambda: _inits,
        "timelines": partial(_timelines, folder),
        "new_group": partial(_with_torch, _new_group),
        "loaders": partial(_with_torch, _loaders),
        "buckets": partial(_with_torch, _buckets),
    }
    rounds = int(times)
    once = kinds[kind]()
    for number in range(rounds // 2):  # more than the 1024 closed groups that are remembered, where there are 3000
        once(number)
    before = held()
    for number in range(rounds // 2, rounds):
        once(number)
    after = held()
    print(kind, rounds, before, after, flush=True)
    most = GROWTH + (PER_ROUND + IN_STORE.get(kind, 0)) * (rounds - rounds // 2)
    assert after[0] - before[0] < most, (before, after)
    assert after[1] - before[1] < most, (before, after)
    assert after[2] <= before[2] + FEW and after[3] <= before[3] + FEW, (before, after)
    assert after[4] == before[4], (before, after)


if __name__ == "__main__":
    main(*sys.argv[1:])
