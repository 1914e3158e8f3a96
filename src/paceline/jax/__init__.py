"""Collectives for JAX on CPUs, as functions and as JAX's own: `import paceline.jax`. See docs/frameworks/jax.md.

Import it before `jax`, which looks for an MPI when it is imported. Raises a one-line ImportError where JAX is not
installed, and for a version that is not supported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from paceline.jax.compat import require_jax
from paceline.jax.mpi_library import offer

require_jax()
offer()

from paceline.jax import derivatives as derivatives  # registers itself
from paceline.jax.collectives import all_gather, all_reduce, all_to_all, barrier, broadcast, reduce_scatter
from paceline.jax.groups import init
from paceline.jax.tree import pmean

if TYPE_CHECKING:
    from paceline.jax.mpi import initialize

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "barrier",
    "broadcast",
    "init",
    "initialize",
    "pmean",
    "reduce_scatter",
]


def __getattr__(name: str) -> Any:
    """Import what needs the runtime, which takes a while, when it is asked for."""
    if name == "initialize":
        from paceline.jax.mpi import initialize

        return initialize
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
