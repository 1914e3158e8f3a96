"""What is left of a work object that the program has dropped while its operation is under way."""

from __future__ import annotations

from torch import Tensor

from paceline.group.host import Ending


class Abandoned:
    """Keeps the tensor that the operation uses alive."""

    def __init__(self, operation: Ending, tensor: Tensor) -> None:
        self._operation, self._tensor = operation, tensor

    def done(self) -> bool:
        """Whether it is over; never waits."""
        return self._operation.done()
