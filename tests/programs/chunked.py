"""All-reduce, broadcast, all-gather and reduce-scatter in chunks, on random sizes; with exact results.

Arguments: how ranks are spread over machines, e.g. "0011", and a seed.
"""

from __future__ import annotations

import os
import random
import sys

import numpy as np
from every_collective import DTYPES, REDUCTIONS, data_of, defined, equal, expected
from planned import planned

from paceline.plan.binomial import binomial
from paceline.plan.direct import direct
from paceline.plan.flat import flat
from paceline.plan.halving_doubling import halving_doubling
from paceline.plan.ring import ring

PLANNERS = [ring, halving_doubling, direct, binomial, flat]
CHUNKS = [4096, 5001, 70_001, 300_000, 1 << 30]
OPS = [*REDUCTIONS, "avg"]


def main(machines: str, seed: int) -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline

    world = paceline.init(timeout=60)
    choice = random.Random(seed)
    for planner in PLANNERS:
        chunk = choice.choice(CHUNKS)
        group = planned(world, planner(world.size), chunk)
        for turn in range(8):
            dtype = choice.choice(DTYPES)
            op = choice.choice([op for op in OPS if defined(op, dtype)])
            count = choice.choice([choice.randrange(20), choice.randrange(20_000), choice.randrange(400_000)])
            case = (planner.__name__, chunk, count, dtype, op)
            inputs = [data_of(rank, count, dtype, turn) for rank in range(world.size)]
            array = inputs[world.rank].copy()
            group.all_reduce(array, op)
            assert equal(array, expected(op, inputs)), case
            root = choice.randrange(world.size)
            array = inputs[world.rank].copy()
            group.broadcast(array, root)
            assert np.array_equal(array, inputs[root]), (*case, root)
            everything = np.empty(count * world.size, inputs[0].dtype)
            group.all_gather(everything, inputs[world.rank])
            assert np.array_equal(everything, np.concatenate(inputs)), case
            size = count // world.size
            part = np.empty(size, inputs[0].dtype)
            group.reduce_scatter(part, inputs[world.rank][: size * world.size], op)
            mine = slice(world.rank * size, (world.rank + 1) * size)
            assert equal(part, expected(op, inputs)[mine]), case
        group.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
