"""The figures of a rank per step and per second, over its whole run or between two readings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.observe.batches import hidden
from paceline.observe.figures import Figures


@dataclass(frozen=True)
class Rates:
    """The rates of one rank over `seconds`. None where nothing is known.

    step_ms is a median, everything else a mean. exposed: the share of the time in which some caller waited.
    negotiation_us: the time from the last rank's submission to the issue, for requests that this rank was the last to
    submit. longest_us: the longest such time of the whole run. cache_hits: the share of requests that needed no
    description.
    data_ms: the time of waiting for a batch of Paceline's loaders, per step. hidden: the share of the time of making
    the batches during which the program did not wait for them.
    """

    seconds: float
    steps: float
    steps_per_second: float
    step_ms: float | None
    bytes_per_second: float
    bytes_per_step: float | None
    exposed: float
    exposed_ms: float | None
    negotiation_us: float | None
    longest_us: float | None
    oversleep_us: float | None
    spin_ms: float | None
    background_cpu_ms: float | None
    cache_hits: float | None
    fused_bytes: float | None
    data_ms: float | None = None
    hidden: float | None = None


def rates(after: Figures, before: Figures | None = None) -> Rates:
    """The rates between two figures of one rank; without `before`, over everything that `after` counts."""
    seconds = max((after.time_ns - (before.time_ns if before else after.since_ns)) / 1e9, 1e-9)
    # The count falls when steps begin to be counted by names.
    steps = max(0.0, after.steps - (before.steps if before else 0))
    operations = after.operations - (before.operations if before else 0)
    seen = operations - (after.unseen - (before.unseen if before else 0))
    moved = after.bytes - (before.bytes if before else 0)
    size = moved * operations / seen if seen > 0 else float(moved)
    exposed_ns = after.exposed_ns - (before.exposed_ns if before else 0)
    waited_ns = after.batch_wait_ns - (before.batch_wait_ns if before else 0)
    grown = _grown(after.counters, before.counters if before else {})

    def per_step(value: float | None, scale: float = 1.0) -> float | None:
        return value / steps / scale if value is not None and steps > 0 else None

    asked = (grown.get("cache_hits") or 0) + (grown.get("cache_misses") or 0)
    negotiations = grown.get("negotiations")
    return Rates(
        seconds=seconds,
        steps=steps,
        steps_per_second=steps / seconds,
        step_ms=after.step_ns / 1e6 if after.step_ns else None,
        bytes_per_second=size / seconds,
        bytes_per_step=per_step(size),
        exposed=exposed_ns / 1e9 / seconds,
        exposed_ms=per_step(exposed_ns, 1e6),
        negotiation_us=grown["negotiation_ns"] / negotiations / 1e3 if negotiations else None,
        longest_us=after.counters["longest_negotiation_ns"] / 1e3 if negotiations else None,
        oversleep_us=per_step(grown.get("oversleep_ns"), 1e3),
        spin_ms=per_step(grown.get("spin_ns"), 1e6),
        background_cpu_ms=per_step(grown.get("background_cpu_ns"), 1e6),
        cache_hits=grown["cache_hits"] / asked if asked else None,
        fused_bytes=per_step(grown.get("fused_bytes")),
        data_ms=per_step(waited_ns, 1e6) if after.batches else None,
        hidden=hidden(after.loading_ns - (before.loading_ns if before else 0), waited_ns),
    )


def _grown(after: Mapping[str, int], before: Mapping[str, int]) -> dict[str, int]:
    return {name: value - before.get(name, 0) for name, value in after.items()}
