"""One rank of two: a call raises on rank 1 before anything is sent, and rank 0, which waits in it, hears why.

Argument: how ranks are spread over machines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import numpy as np
import pytest


def main(machines: str) -> None:
    os.environ["PACELINE_MACHINE"] = f"machine-{machines[int(os.environ['RANK'])]}"
    import paceline
    from paceline.errors import Mismatch

    world = paceline.init(timeout=1000)

    def group() -> paceline.Group:
        made = world.split(0)
        assert made is not None
        return made

    few, many, wrong = np.ones(4, np.float32), np.ones(1 << 20, np.float32), np.ones(5, np.int16)
    calls: dict[str, tuple[Callable[[paceline.Group], object], Callable[[paceline.Group], object]]] = {
        "all_reduce": (lambda g: g.all_reduce(few), lambda g: g.all_reduce(wrong)),
        "broadcast": (lambda g: g.broadcast(few, 1), lambda g: g.broadcast(few, "1")),  # type: ignore[arg-type]
        "reduce": (lambda g: g.reduce(few), lambda g: g.reduce(few, 0, "mean")),
        "all_gather": (lambda g: g.all_gather(np.ones(8), np.ones(4)), lambda g: g.all_gather(np.ones(9), np.ones(4))),
        "reduce_scatter": (
            lambda g: g.reduce_scatter(np.ones(2), np.ones(4)),
            lambda g: g.reduce_scatter(few, few),
        ),
        "all_to_all": (
            lambda g: g.all_to_all(many.copy(), many),
            lambda g: g.all_to_all(few.copy(), few, [2, 2], [2, 1]),
        ),
        "gather": (lambda g: g.gather(few, np.ones(8, np.float32)), lambda g: g.gather(wrong)),
        "scatter": (lambda g: g.scatter(few, root=1), lambda g: g.scatter(few, root=1)),
    }
    for name, (right, mistaken) in calls.items():
        part = group()
        part.barrier()
        if world.rank == 1:
            with pytest.raises((TypeError, ValueError)) as mistake:
                mistaken(part)
            with pytest.raises(Mismatch):
                part.barrier()
            world.send(np.frombuffer(str(mistake.value).encode(), np.uint8).copy(), 0)
        else:
            with pytest.raises(Mismatch) as caught:
                right(part)
            words = f"raised before it began: {name} #1: {{kind}}: "
            assert any(words.format(kind=kind) in str(caught.value) for kind in ("TypeError", "ValueError"))
            said = np.empty(len(str(caught.value).split("Error: ", 1)[1].encode()), np.uint8)
            world.recv(said, 1)
            assert said.tobytes().decode() in str(caught.value)
        part.close()

    # The same mistake on all ranks harms nothing, however often, and with calls under way.
    part = group()
    for number in range(100):
        under_way = part.all_reduce(few, "max", async_op=True)
        for _, mistaken in calls.values():
            if mistaken is calls["gather"][1] or mistaken is calls["scatter"][1]:
                continue
            with pytest.raises((TypeError, ValueError)):
                mistaken(part)
        assert under_way is not None
        under_way.wait()
        total = np.full(3, world.rank + number)
        part.all_reduce(total)
        assert (total == 2 * number + 1).all()
    part.close()
    world.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
