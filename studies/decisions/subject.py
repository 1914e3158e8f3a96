"""What `decision_sensitivity.py` carries out again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType, ModuleType
from typing import NamedTuple


class Subject(NamedTuple):
    """A simulation, and the constants of one record that it depends on.

    figures: carries it out; returns its figures by name, always the same ones with the same constants. differences:
    the constants that mean a difference from 1. bounds: the least and the most of constants that have such.
    """

    record: ModuleType
    constants: Sequence[str]
    figures: Callable[[], dict[str, float]]
    differences: Sequence[str] = ()
    bounds: Mapping[str, tuple[float, float]] = MappingProxyType({})

    def wrong(self, constant: str) -> Sequence[float]:
        """The values that are off by two, the lower one first."""
        value = getattr(self.record, constant)
        low, high = self.bounds.get(constant, (0.0, math.inf))
        if constant in self.differences:
            wrong = [1 + (value - 1) * factor for factor in (0.5, 2)]
        elif isinstance(value, int):
            wrong = [max(1, round(value * factor)) for factor in (0.5, 2)]
        else:
            wrong = [value * factor for factor in (0.5, 2)]
        return sorted(max(low, min(high, one)) for one in wrong)
