"""Says where an idea of the paper does not make a step shorter, and which parts of the step are why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from paceline_bench.data.measure import CATEGORIES, Row

IDEAS = {
    "master": "",
    "splitting": "peer_to_peer_ms",
    "pre_loading": "host_to_device_ms",
    "three_in_one": "broadcast_ms",
}
"""The approaches that each add one idea to the one before, with the category that the idea is to shorten."""
_TOLD = 0.1
"""The share of what the idea saves, or of the loss if that is more, from which on a category counts as a reason."""


def sentences(rows: Sequence[Row]) -> list[str]:
    """Return a sentence for each network and idea that did not shorten the step, or one that says that all did."""
    found = []
    for model in dict.fromkeys(row.model for row in rows):
        by_name = {row.approach: row for row in rows if row.model == model}
        steps = [by_name[approach] for approach in IDEAS if approach in by_name]
        found += [_sentence(before, after) for before, after in pairwise(steps) if after.step_ms >= before.step_ms]
    return found or ["Each idea makes the step shorter with every network."]


def _sentence(before: Row, after: Row) -> str:
    aim = IDEAS[after.approach]
    lost, saved = after.step_ms - before.step_ms, getattr(before, aim) - getattr(after, aim)
    apart = after.step_ms_q1 > before.step_ms_q3
    spread = "" if apart else ", which is within the spread of the rounds"
    begin = f"{after.model}: {after.approach} takes {lost:.1f} ms a step longer than {before.approach}{spread}"
    longer = " and ".join(_longer(before, after, aim, _TOLD * max(lost, saved)))
    however = "but" if saved > 0 else "and"
    but = f", {however} {longer}" if longer else ", and nothing else of the first device's step takes longer: others do"
    return f"{begin}. {CATEGORIES[aim]} takes {abs(saved):.1f} ms {'less' if saved >= 0 else 'more'}{but}."


def _longer(before: Row, after: Row, aim: str, least: float) -> Iterator[str]:
    grown = {name: getattr(after, name) - getattr(before, name) for name in CATEGORIES if name != aim}
    for name, more in sorted(grown.items(), key=lambda pair: -pair[1]):
        if more > least:
            yield f"{CATEGORIES[name]} {more:.1f} ms more"
