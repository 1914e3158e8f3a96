"""The choices open to tuning: policies, and then, if the best policy is `board`, sizes of batches."""

from __future__ import annotations

from paceline.coordinate.tuner import Subject, Tuner
from paceline.formats.sizes import show_bytes

SIZES = (1 << 20, 4 << 20, 16 << 20, 64 << 20)
"""Bytes of a batch."""
BOARD, GRAPH, CYCLE = "board", "graph", "cycle"
OTHERS = (GRAPH, CYCLE)
"""The policies that can beat `board`: `graph` sends no messages, and `cycle` gathers more in a batch. The variants of
`cycle` wake up as often and take longer."""


def _policy_hint(policy: str) -> str:
    return "PACELINE_POLICY=graph" if policy == GRAPH else ""


_BATCHES = Subject[int]("size", "stay", "batches of at most", show_bytes, lambda size: f"PACELINE_FUSION_BYTES={size}")
# In the first step after a change `graph` negotiates and `cycle` fills its cache, so two steps are not counted.
_POLICY = Subject[str]("policy", "stays", "policy", str, _policy_hint, settling=2)


def sizes(fusion_bytes: int) -> Tuner[int]:
    """A tuner that tries several sizes of batches against `fusion_bytes`."""
    return Tuner(_BATCHES, fusion_bytes, sorted(SIZES))


def policies() -> Tuner[str]:
    """A tuner that tries other policies against `board`."""
    return Tuner(_POLICY, BOARD, OTHERS)
