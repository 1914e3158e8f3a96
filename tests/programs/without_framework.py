"""The raw face needs no framework."""

from __future__ import annotations

import sys

import numpy as np

import paceline

with paceline.init(timeout=30) as group:
    group.all_reduce(np.ones(3))
    assert not {"torch", "tensorflow", "jax"} & set(sys.modules)
