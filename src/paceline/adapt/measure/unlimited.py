"""Lets streams go as fast as the links, while these are measured."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from paceline._engine import Group


@contextmanager
def unlimited(native: Group) -> Iterator[None]:
    """Lift the limits that the plans of this group have set for streams that lost packets, see `Group.set_pace`.

    Otherwise a measurement would find what the plans believe. Afterwards the limits are those of the plans again.
    """
    inbound, outbound = native.pace
    if outbound:
        native.set_pace(inbound, [math.inf] * len(outbound))
    try:
        yield
    finally:
        if outbound:
            native.set_pace(inbound, outbound)
