"""Ranks disagree, and each dies without a goodbye the moment it hears of it. Argument: "blocking" or "async"."""

from __future__ import annotations

import os
import sys

import numpy as np

import paceline
from paceline.errors import Mismatch

group = paceline.init(timeout=30)
group.barrier()
try:
    operation = group.all_reduce(np.ones(100 + group.rank), async_op=sys.argv[1] == "async")
    if operation is not None:
        operation.wait()
except Mismatch:
    os._exit(0)
