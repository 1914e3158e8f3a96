"""Collectives for JAX on CPUs.

Raises a one-line ImportError where JAX is not installed, and for a version that is not supported.
"""

from __future__ import annotations

from paceline.jax.compat import require_jax

require_jax()
