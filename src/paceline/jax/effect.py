"""The effect of a collective: JAX carries all of them out in the order of the program, and leaves none out.

JAX hands a token from each to the next, also through control flow, nested functions and from one compiled program to
the next one, so that all ranks that run the same program carry out the same collectives in the same order.
"""

from __future__ import annotations

from jax._src import effects


class CollectiveEffect(effects.Effect):  # type: ignore[misc]  # JAX is not there when types are checked
    """The only one of its kind is `EFFECT`."""

    def __repr__(self) -> str:
        return "collectives of paceline.jax"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CollectiveEffect)

    def __hash__(self) -> int:
        return hash(CollectiveEffect)


EFFECT = CollectiveEffect()

for _kind in (
    effects.ordered_effects,
    effects.lowerable_effects,
    effects.control_flow_allowed_effects,
    effects.custom_derivatives_allowed_effects,
    effects.remat_allowed_effects,
):
    _kind.add_type(CollectiveEffect)
