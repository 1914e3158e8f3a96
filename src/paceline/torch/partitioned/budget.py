"""The memory that each rank's training may need, and what becomes of activations for which there is no room."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from paceline.torch.partitioned.cut import Chain
from paceline.torch.partitioned.update import NOTHING, Update

Activations = Literal["keep", "recompute", "file"]
"""Until the backward of a call, its activations are kept in memory; or computed again then; or kept in a file."""


@dataclass(frozen=True)
class Budget:
    """memory: bytes that each rank may use beyond what its process has without the model.

    beyond: what becomes of activations that do not fit; with "keep" there are none. states: the optimizer's for each
    weight; Adam has two. file_seconds: in which the file takes or gives a byte. update: the time of
    the optimizer's step.
    """

    memory: float = math.inf
    beyond: Activations = "recompute"
    states: int = 2
    file_seconds: float = 0.0
    update: Update = NOTHING

    def instead(self, chain: Chain) -> Sequence[float]:
        """Seconds that each call costs more if its activations are not kept; nothing if all must be."""
        if self.beyond == "file":
            return [2 * self.file_seconds * nbytes for nbytes in chain.saved]
        return chain.forward if self.beyond == "recompute" else ()
