"""Random steps: everything that ranks may submit, in an order of each rank's own, checked to the bit.

As a rank: `random_steps.py rank MACHINES POLICY STEPS SEED`. By hand, with PYTHONPATH=tests:
`random_steps.py MACHINES POLICY STEPS [SEED]` runs a job of such ranks here, as in `random_steps.py 0011 board 10000`.

The ranks draw what there is to do in a step from a common seed; in which order, when, and how it is waited for, each
rank draws for itself. A request may be missing on one rank until the next step. From time to time some ranks have
fewer steps than others, and all join.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from coordinated_rank import joined, span

NAMES = 12
EPOCH = 25
"""Steps between joins."""


@dataclass
class Wish:
    """One request of a step, as all ranks know it."""

    name: str
    kind: str
    count: int
    root: int
    op: str
    codec: str | None = None
    bundle: tuple[int, int] | None = None
    late: int = -1
    """The rank on which it comes a step later."""
    array: Any = field(default=None, compare=False)
    output: Any = field(default=None, compare=False)
    request: Any = field(default=None, compare=False)


def drawn(common: random.Random, step: int, size: int, short: bool) -> list[Wish]:
    """What there is to do in a step; in a `short` one some rank has joined already."""
    kinds = ["all_reduce"] * 6 + ["all_gather", "barrier"]
    if not short:
        kinds += ["broadcast", "all_to_all", "reduce_scatter", "mismatch" if size > 1 else "barrier"]
    wishes = []
    for number in range(common.randrange(1, NAMES)):
        kind = common.choice(kinds)
        count = common.choice([0, 1, 5, 100, 3000, 40_000])
        late = common.randrange(size) if common.random() < 0.1 and not short else -1
        # What comes late must not change places with a request of the same name.
        name = f"{kind} {number}" if late < 0 else f"late {kind} {number} {step % 2}"
        wishes.append(Wish(name, kind, count, common.randrange(size), common.choice(["sum", "max"]), late=late))
    if common.random() < 0.2:
        for number in range(3):
            wishes.append(Wish(f"bundled {number}", "all_reduce", 10, 0, "sum", bundle=(step + 1, 3)))
    for wish in wishes:
        if wish.op == "sum" and common.random() < 0.5:
            wish.codec = "lossless"
    return wishes


class Rank:
    def __init__(self, group: Any, coordinator: Any, seed: int) -> None:
        self.group, self.coordinator = group, coordinator
        self.own = random.Random(f"{seed} {group.rank}")

    def value(self, wish: Wish, rank: int, count: int) -> Any:
        return (np.arange(count, dtype=np.float32) % 11 + wish.root) * (rank + 1)

    def submit(self, wish: Wish) -> None:
        me, size, c = self.group.rank, self.group.size, self.coordinator
        match wish.kind:
            case "all_reduce":
                wish.array = self.value(wish, me, wish.count)
                wish.request = c.all_reduce(
                    wish.name, span(wish.array), wish.op, bundle=wish.bundle, shape=(wish.count,), codec=wish.codec
                )
            case "mismatch":
                differs = me == wish.root
                codec = "bf16" if differs and wish.codec else wish.codec
                wish.array = self.value(wish, me, wish.count + (differs and not wish.codec))
                wish.request = c.all_reduce(wish.name, span(wish.array), shape=wish.array.shape, codec=codec)
            case "all_gather":
                wish.array = self.value(wish, me, me * wish.count)
                wish.request = c.all_gather(wish.name, span(wish.array), shape=wish.array.shape)
            case "broadcast":
                wish.array = self.value(wish, me, wish.count)
                wish.request = c.broadcast(
                    wish.name, span(wish.array), wish.root, shape=wish.array.shape, codec=wish.codec
                )
            case "all_to_all":
                counts = [(me + to) * wish.count % 1009 for to in range(size)]
                wish.array = np.concatenate([np.full(n, 100 * me + to, np.float32) for to, n in enumerate(counts)])
                wish.request = c.all_to_all(wish.name, span(wish.array), counts, shape=wish.array.shape)
            case "reduce_scatter":
                counts = [wish.count // (to + 1) for to in range(size)]
                wish.array = self.value(wish, me, sum(counts))
                wish.output = np.empty(counts[me], np.float32)
                wish.request = c.reduce_scatter(
                    wish.name, span(wish.array), span(wish.output), counts, shape=wish.array.shape
                )
            case "barrier":
                wish.request = c.barrier(wish.name)

    def finish(self, wish: Wish, alive: list[int]) -> None:
        """Wait for it and check it; `alive` are the ranks that have not joined."""
        from paceline._engine import Mismatch

        me, size = self.group.rank, self.group.size
        if wish.kind == "mismatch":
            with pytest.raises(Mismatch, match=wish.name) as caught:
                wish.request.wait()
            assert caught.value.tensor == wish.name
            assert (caught.value.rank, caught.value.group) == (None, tuple(range(size)))
            return
        if self.own.random() < 0.3:
            while not wish.request.done():
                time.sleep(0)
        wish.request.wait()
        match wish.kind:
            case "all_reduce":
                parts = [self.value(wish, rank, wish.count) for rank in alive]
                if len(alive) < size:
                    parts.append(np.zeros(wish.count, np.float32))
                combine = np.max if wish.op == "max" else np.sum
                expected = combine(parts, axis=0)
                assert (wish.array == expected).all(), (wish, wish.array, expected)
            case "all_gather":
                expected = [self.value(wish, rank, rank * wish.count) if rank in alive else [] for rank in range(size)]
                got = np.frombuffer(wish.request.output, np.float32)[: sum(wish.request.counts)]
                assert wish.request.counts == tuple(map(len, expected)), wish
                assert (got == np.concatenate(expected)).all(), wish
            case "broadcast":
                assert (wish.array == self.value(wish, wish.root, wish.count)).all(), wish
            case "all_to_all":
                counts = [(me + rank) * wish.count % 1009 for rank in range(size)]
                assert wish.request.counts == tuple(counts), wish
                got = np.frombuffer(wish.request.output, np.float32)[: sum(counts)]
                expected = [np.full(n, 100 * rank + me, np.float32) for rank, n in enumerate(counts)]
                assert (got == np.concatenate(expected)).all(), wish
            case "reduce_scatter":
                begin = sum(wish.count // (to + 1) for to in range(me))
                whole = self.value(wish, 0, begin + wish.output.size)[begin:] * (size * (size + 1) // 2)
                assert (wish.output == whole).all(), wish

    def pause(self) -> None:
        if self.own.random() < 0.02:
            time.sleep(self.own.uniform(0, 0.002))

    def step(self, wishes: list[Wish], behind: list[Wish], alive: list[int]) -> list[Wish]:
        """Hand in all but what comes later here, and what was left `behind`; returns what is to be waited for later."""
        me = self.group.rank
        now = [wish for wish in wishes if wish.late != me] + [wish for wish in behind if wish.late == me]
        self.own.shuffle(now)
        for wish in now:
            self.pause()
            self.submit(wish)
        waits = [wish for wish in wishes if wish.late < 0] + behind
        self.own.shuffle(waits)
        for wish in waits:
            self.finish(wish, alive)
        return [wish for wish in wishes if wish.late >= 0]


def rank(machines: str, policy: str, steps: int, seed: int, say: Callable[[str], None] = print) -> None:
    group, coordinator = joined(machines, policy, fusion_bytes=200_000, cycle_seconds=0.0005)
    if policy == "graph":
        # Steps seldom keep to it.
        coordinator.set_order([["bundled 0", "bundled 1", "bundled 2"], ["all_reduce 0", "all_reduce 1"]])
    me = Rank(group, coordinator, seed)
    common = random.Random(seed)
    behind: list[Wish] = []
    step = 0
    while step < steps:
        # Each rank's last step of this epoch, and of those after the first that is through nothing comes late.
        last = [step + EPOCH - common.randrange(4) for _ in range(group.size)]
        for here in range(step, max(last)):
            alive = [rank for rank in range(group.size) if here < last[rank]]
            wishes = drawn(common, here, group.size, here >= min(last) - 1)
            if group.rank in alive:
                behind = me.step(wishes, behind, alive)
                assert not behind or here < min(last) - 1
        join = coordinator.join()
        join.wait()
        assert 0 <= join.last < group.size
        step = max(last)
    counters = coordinator.counters()
    done = f"{step} steps, {counters.issued} requests in {counters.batches} batches"
    say(f"rank {group.rank}: {done}, {counters.deviations} deviations")
    coordinator.close()


def main(machines: str, policy: str, steps: int, seed: int) -> None:
    from jobs import run

    with tempfile.TemporaryDirectory() as name:
        arguments = ["rank", machines, policy, str(steps), str(seed)]
        run(len(machines), Path(__file__), *arguments, output=Path(name), deadline=60 + steps)
        print("".join(path.read_text() for path in sorted(Path(name).glob("*.out"))), end="")


if __name__ == "__main__":
    if sys.argv[1] == "rank":
        rank(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1)
