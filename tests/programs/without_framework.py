"""The raw face needs no framework, and a training loads nothing that only people ask for."""

from __future__ import annotations

import sys

import numpy as np

import paceline

ASKED_FOR = ("bench", "lab", "metrics", "report", "simulate", "top", "tune", "verdict")

with paceline.init(timeout=30) as group:
    group.all_reduce(np.ones(3))
    loaded = {name.split(".")[1] for name in sys.modules if name.startswith("paceline.")}
    assert "runtime" in loaded
    assert not loaded.intersection(ASKED_FOR), loaded
    assert not {"torch", "tensorflow", "jax"} & set(sys.modules)
