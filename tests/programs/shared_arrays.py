"""One rank: arrays in the arena, reduced in place, kept, dropped, made again, and inherited by a forked child."""

from __future__ import annotations

import gc
import os
import weakref

import numpy as np

import paceline
from paceline.process.current import runtime


def last_algorithm() -> str:
    return str(runtime().events()[-1][7])


def check_in_place(group: paceline.Group) -> None:
    whole = sum(range(1, group.size + 1))
    for dtype in (np.float32, np.float64, np.int64):
        array = paceline.empty((300, 1000), dtype)
        array[:] = np.arange(300)[:, None] * (group.rank + 1)
        group.all_reduce(array)
        assert (array == np.arange(300)[:, None] * whole).all()
        assert last_algorithm() == ("in_place" if group.size > 1 else "none")
        private = np.full((300, 1000), group.rank + 1, dtype)
        group.all_reduce(private)
        assert (private == whole).all()
        assert last_algorithm() in (("staged", "fetched") if group.size > 1 else ("none",))
    large = np.arange(1_000_003.0) * (group.rank + 1)
    group.all_reduce(large)
    assert (large == np.arange(1_000_003.0) * whole).all()
    # Where the kernel forbids reading each other's memory, two ranks go through shared memory, too.
    assert last_algorithm() in (("staged", "fetched") if group.size > 1 else ("none",))


def check_other_collectives(group: paceline.Group) -> None:
    mine, everyone = paceline.empty(200_000), paceline.empty(200_000 * group.size)
    mine[:] = group.rank
    group.all_gather(everyone, mine)
    assert (everyone.reshape(group.size, -1) == np.arange(group.size)[:, None]).all()
    group.broadcast(mine, group.size - 1)
    assert (mine == group.size - 1).all()
    part = paceline.empty(200_000)
    group.reduce_scatter(part, everyone)
    assert (part == group.rank * group.size).all()


def check_memory_comes_back(group: paceline.Group) -> None:
    gc.collect()
    before = runtime()._memory.arena.allocated
    for _ in range(20):
        array = paceline.empty(1_000_000)
        array[:] = 1
        group.all_reduce(array)
        assert (array == group.size).all()
        del array
    assert runtime()._memory.arena.allocated == before


def check_dropped(group: paceline.Group) -> None:
    """Who starts an operation and drops it, with its arrays, gives nobody else their memory before it is over."""
    if group.size == 1:
        return
    word = np.zeros(1, np.int8)
    if group.rank == 0:
        for make in (paceline.empty, np.empty):
            array = make(100_000, np.float32)
            array[:] = 1
            alive = weakref.ref(array)
            group.all_reduce(array, async_op=True)
            del array
            gc.collect()
            assert alive() is not None
            for peer in range(1, group.size):
                group.send(word, peer)
            group.barrier()
            group.all_reduce(word, async_op=True)  # dropped, too: what has ended is let go
            group.barrier()
            assert alive() is None
    else:
        for _ in range(2):
            array = np.ones(100_000, np.float32)
            group.recv(word, 0)
            group.all_reduce(array)
            assert (array == group.size).all()
            group.barrier()
            group.all_reduce(word)
            group.barrier()


def check_fork(group: paceline.Group) -> None:
    array = paceline.empty(1000, np.int64)
    array[:] = 7
    child = os.fork()
    if child == 0:
        seen = bool((array == 7).all())
        del array
        os._exit(0 if seen else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    group.all_reduce(array)
    assert (array == 7 * group.size).all()


def main() -> None:
    early = paceline.empty(0)
    assert early.size == 0
    assert paceline.empty((2, 3), np.int8).shape == (2, 3)
    group = paceline.init(timeout=60)
    check_in_place(group)
    check_other_collectives(group)
    check_memory_comes_back(group)
    check_dropped(group)
    check_fork(group)
    print("right")


if __name__ == "__main__":
    main()
