"""The remains of a work object that the program has dropped while its operation is under way."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from paceline.group.host import Ending


class Abandoned:
    """Keeps the tensors that the operation uses alive."""

    def __init__(self, operation: Ending, tensors: Sequence[Tensor]) -> None:
        self._operation, self._tensors = operation, tensors

    def done(self) -> bool:
        """Return whether the operation is over, without waiting."""
        return self._operation.done()
