"""Collectives for JAX on CPUs, as functions under `jax.jit`: `import paceline.jax`. See docs/how-to/jax.md.

Raises a one-line ImportError where JAX is not installed, and for a version that is not supported.
"""

from __future__ import annotations

from paceline.jax.compat import require_jax

require_jax()

from paceline.jax import derivatives as derivatives  # registers itself
from paceline.jax.collectives import all_gather, all_reduce, all_to_all, barrier, broadcast, reduce_scatter
from paceline.jax.groups import init
from paceline.jax.tree import pmean

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "init",
    "pmean",
    "reduce_scatter",
]
