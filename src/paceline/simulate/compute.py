"""The time that ranks compute in a step: told, or as a run's ranks have shown it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from statistics import fmean, median, median_low

_ALWAYS = 0.9
"""The share of a run's steps in which a rank that is later than the others for good computes longer than the median
rank does. Of ranks that are alike, one in 170 does so in eleven steps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Compute:
    """The time that ranks compute in a step.

    A rank submits its last gradient `seconds` after the step began, or one of the measured `samples` if there are any.
    One of `together` comes on top, the same for all ranks, and an exponential delay with the mean `delay`, which
    `Cores` may make longer.
    """

    seconds: float
    samples: tuple[float, ...] = ()
    later: tuple[float, ...] = ()
    """Seconds by which each rank computes longer than the others in every step; none if all ranks are alike."""
    together: tuple[float, ...] = ()
    """Measured seconds by which all ranks together compute longer in a step than usual, or shorter (below 0)."""
    whole: bool = False
    """True if `samples` has a value for each rank of a step, one step after the other, and ranks draw their own of the
    same step."""
    delay: float = 0.0
    after: float = 0.0
    """Seconds from the end of communication to the next step: the optimizer."""
    steps: tuple[tuple[float, ...], ...] = ()
    """The seconds that a run's ranks computed in each of its steps, from which `on` takes what stands for `seconds`."""

    @property
    def mean(self) -> float:
        """Seconds that a rank computes in the mean, without its delay."""
        if self.steps:
            return fmean(chain.from_iterable(self.steps))
        usual = fmean(self.samples) if self.samples else self.seconds
        return usual + (fmean(self.later) if self.later else 0.0)

    @property
    def fields(self) -> tuple[float, Sequence[float], Sequence[float], Sequence[float], bool, float, float]:
        """The values that the engine takes."""
        return self.seconds, self.samples, self.later, self.together, self.whole, self.delay, self.after

    def scaled(self, factor: float) -> Compute:
        """Return `factor` times as much computation, and delay."""

        def times(values: Sequence[float]) -> tuple[float, ...]:
            return tuple(factor * each for each in values)

        return replace(
            self,
            seconds=factor * self.seconds,
            samples=times(self.samples),
            later=times(self.later),
            together=times(self.together),
            delay=factor * self.delay,
            steps=tuple(map(times, self.steps)),
        )

    def on(self, ranks: int) -> Compute:
        """Return the computation on so many ranks.

        As many as the run had compute what they did in one of its steps. Of others as large a part is later than the
        rest as in the run, and what all have in common is drawn once for all of them.
        """
        if not self.steps:
            found = tuple(self.later[rank % len(self.later)] for rank in range(ranks)) if self.later else ()
            return replace(self, later=found)
        if ranks == len(self.steps[0]):
            return replace(self, samples=tuple(chain.from_iterable(self.steps)), whole=True, steps=())
        return self._apart().on(ranks)

    def _apart(self) -> Compute:
        """The computation as what is the same for all ranks of a step, what some need more in nearly every step, and
        the rest.

        If all values were drawn for any rank, one that is always late would be late now and then, and others too. What
        is the same for all ranks of a step, as where they share CPUs or input, is drawn once for all of them, or one of
        them would be late in every step. A rank's distance from the mean of its step, which it is a part of, is widened
        to what it would be from the mean of other ranks.
        """
        found = list(zip(*self.steps, strict=True))
        usual = [median_low(step) for step in self.steps]
        over = [[seconds - here for seconds, here in zip(one, usual, strict=True)] for one in found]
        always = [sum(each > 0 for each in one) >= _ALWAYS * len(one) for one in over]
        later = tuple(median(one) if late else 0.0 for one, late in zip(over, always, strict=True))
        rest = [[seconds - more for seconds in one] for one, more in zip(found, later, strict=True)]
        of_step = [fmean(step) for step in zip(*rest, strict=True)]
        mean, wider = fmean(of_step), math.sqrt(len(rest) / max(1, len(rest) - 1))
        return replace(
            self,
            samples=tuple(
                max(0.0, mean + wider * (seconds - here))
                for one in rest
                for seconds, here in zip(one, of_step, strict=True)
            ),
            later=later if any(later) else (),
            together=tuple(here - mean for here in of_step),
            steps=(),
        )
