"""Each rank takes itself for the root of a group's last broadcast, on a machine of its own; each prints its error."""

from __future__ import annotations

import os

import numpy as np

import paceline

os.environ["PACELINE_MACHINE"] = f"machine-{os.environ['RANK']}"
with paceline.init(timeout=60) as world:
    group = world.split(0)
    try:
        try:
            group.broadcast(np.full(4, group.rank, np.float32), root=group.rank)
        finally:
            world.barrier()  # all have begun the broadcast
            group.close()
    except paceline.errors.Mismatch as error:
        print(error)
