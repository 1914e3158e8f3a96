"""JAX's own psum over Paceline, whose face has to be imported before JAX."""

from __future__ import annotations

import paceline.jax

from .jax_arrays import Psum


class PsumOverPaceline(Psum):
    """`jax.lax.psum` under `shard_map`, over Paceline."""

    def join(self, implementation: str, timeout: float) -> None:
        """Join the job. timeout: seconds."""
        paceline.jax.initialize(timeout=timeout)
