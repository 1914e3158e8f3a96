"""The encoding residuals of each tensor on this rank, which are added to it the next time (error feedback)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Residuals:
    """Residuals by process set and the name of a request. Not thread-safe for one name, of which one is under way."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], NDArray[np.float32]] = {}

    def of(self, process_set: int, name: str, elements: int) -> NDArray[np.float32]:
        """Return the residual of a tensor: flat, float32, zeros if there is none yet or it was of another size."""
        kept = self._kept.get((process_set, name))
        if kept is None or kept.size != elements:
            kept = self._kept[process_set, name] = np.zeros(elements, np.float32)
        return kept
