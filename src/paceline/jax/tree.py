"""The mean of a tree of gradients over all ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp

from paceline.jax.collectives import combined

if TYPE_CHECKING:
    from paceline.group.group import Group


def pmean(tree: Any, *, group: Group | None = None) -> Any:
    """Return the tree with the mean of each leaf over all ranks, in one call for all leaves.

    tree: a pytree of floating-point arrays, of one dtype or several, with the same structure, shapes and dtypes on all
    ranks. Leaves of a dtype travel together, up to PACELINE_FUSION_BYTES (64 MiB) at once.

    Raises TypeError for a dtype that the engine does not have, and ValueError for one that has no mean.
    """
    leaves, structure = jax.tree.flatten(tree)
    for leaf in leaves:
        if not jnp.issubdtype(jnp.result_type(leaf), jnp.floating):
            raise ValueError(f"pmean: a leaf of dtype {jnp.result_type(leaf)} has no mean of that dtype")
    return jax.tree.unflatten(structure, combined(leaves, "pmean", "avg", group))
