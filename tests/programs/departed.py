"""One rank of two: rank 0 closes a group and lives on, and rank 1 then needs it there.

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
    from paceline.errors import PeerLost

    world = paceline.init(timeout=40)

    def group() -> paceline.Group:
        made = world.split(0)
        assert made is not None
        return made

    few, many = np.ones(8, np.float32), np.ones(1 << 20, np.float32)
    calls: list[Callable[[paceline.Group], object]] = [
        lambda part: part.all_reduce(few),
        lambda part: part.all_reduce(many),
        lambda part: part.barrier(),
        lambda part: part.recv(few, 0),
        lambda part: part.send(many, 0),
        lambda part: part.all_to_all(many, many.copy()),
    ]
    for call in calls:
        # Before it is needed, and while it is.
        for early in (True, False):
            part = group()
            if world.rank == 0:
                part.send(np.full(4, 3.0), 1, tag=5)
                if not early:
                    world.recv(np.zeros(1), 1)
                part.close()
            else:
                if early:
                    world.recv(np.zeros(1), 0)
                else:
                    world.send(np.zeros(1), 0)
                last = np.zeros(4)
                assert part.recv(last, 0, tag=5) == 0 and (last == 3).all()  # it was sent before
                with pytest.raises(PeerLost, match="has left the group") as caught:
                    call(part)
                assert caught.value.rank == 0
                part.close()
            if world.rank == 0 and early:
                world.send(np.zeros(1), 1)
    world.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
