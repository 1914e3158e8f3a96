"""The number of batches that may be ready before they are needed: as many as memory is for."""

from __future__ import annotations

from paceline.calibration.torch import MEMORY_SHARE, MOST_AHEAD
from paceline.torch.available_memory import available_memory


def batches_ahead(nbytes: int) -> int:
    """Return how many batches of nbytes may be ready before the slowest rank takes them, 1 to MOST_AHEAD."""
    return max(1, min(MOST_AHEAD, int(min(available_memory())) // MEMORY_SHARE // max(1, nbytes)))
