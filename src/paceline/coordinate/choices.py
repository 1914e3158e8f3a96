"""What is tuned: the policy by which ranks agree, and then, where that is `board`, how much goes in one batch."""

from __future__ import annotations

from paceline.coordinate.tuner import Subject, Tuner
from paceline.formats.sizes import show_bytes

SIZES = (1 << 20, 4 << 20, 16 << 20, 64 << 20)
"""Bytes of a batch."""
BOARD, GRAPH, CYCLE = "board", "graph", "cycle"
OTHERS = (GRAPH, CYCLE)
"""Those that can win: `graph` asks nobody, `cycle` gathers more; its other forms wake up as often and take longer."""


def _policy_hint(policy: str) -> str:
    return "PACELINE_POLICY=graph" if policy == GRAPH else ""


_BATCHES = Subject[int]("size", "stay", "batches of at most", show_bytes, lambda size: f"PACELINE_FUSION_BYTES={size}")
# In the first step `graph` negotiates and `cycle` fills its cache; from the second on nothing is said any more.
_POLICY = Subject[str]("policy", "stays", "policy", str, _policy_hint, settling=2)


def sizes(fusion_bytes: int) -> Tuner[int]:
    """Tries sizes of batches, against this one."""
    return Tuner(_BATCHES, fusion_bytes, sorted(SIZES))


def policies() -> Tuner[str]:
    """Tries policies, against `board`."""
    return Tuner(_POLICY, BOARD, OTHERS)
