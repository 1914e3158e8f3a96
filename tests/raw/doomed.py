"""Ranks disagree, and each dies without a goodbye the moment it hears of it."""

from __future__ import annotations

import os

import numpy as np

import paceline
from paceline.errors import Mismatch

group = paceline.init(timeout=30)
group.barrier()
try:
    group.all_reduce(np.ones(100 + group.rank))
except Mismatch:
    os._exit(0)
