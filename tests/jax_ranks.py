"""Ranks that have joined a job with paceline.jax, and stay in it from one test to the next."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

PRELOAD = ["numpy", "paceline.jax"]


@contextmanager
def in_jax_job(rank: int, size: int, *, machines: str, init: bool) -> Iterator[None]:
    os.environ.update(RANK=str(rank), JAX_PLATFORMS="cpu")
    if machines:
        os.environ["PACELINE_MACHINE"] = f"machine-{machines[rank]}"
    import jax

    import paceline.jax
    from paceline.jax import groups

    jax.config.update("jax_enable_x64", True)
    if init and not groups.joined():
        paceline.jax.init()
    yield
