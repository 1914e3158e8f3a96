"""The part of the parameters that a rank owns, exact, where all ranks see only what a lossy codec left of it."""

from __future__ import annotations

from torch import Tensor


class ExactShard:
    """The exact values of `block`, which holds them as a lossy codec left them; two more blocks of memory.

    values: the exact ones, which an optimizer updates: so nothing adds up that encoding loses.
    """

    def __init__(self, block: Tensor) -> None:
        self.values = block.clone()
        self._block = block
        self._left = block.clone()  # by the codec, so that a change by somebody else is seen

    def restart(self) -> None:
        """The block holds exact values."""
        self.values.copy_(self._block)
        self._left.copy_(self._block)

    def encoded(self) -> None:
        """The block holds what a codec left of the values."""
        self._left.copy_(self._block)

    def take_over(self) -> None:
        """Make exact what was written to the block since then, as by `model.load_state_dict`."""
        changed = self._block != self._left
        self.values[changed] = self._block[changed]
