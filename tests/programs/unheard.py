"""Two ranks end without leaving their job: rank 1 has refused what rank 0 sent, which no call of rank 0 has said."""

from __future__ import annotations

import numpy as np
import pytest

import paceline
from paceline.errors import Mismatch

world = paceline.init(timeout=60)
pair = world.split(0)
assert pair is not None
one = np.ones(4, np.float32)
if world.rank == 0:
    pair.send(one, 1)
    world.recv(one, 1)  # comes behind the word of the failure
else:
    with pytest.raises(Mismatch):
        pair.recv(np.ones(4, np.int32), 0)
    world.send(one, 0)
